"""Plan an edit without holding up the event loop: in a thread, or in a process for large files.

A parse holds the interpreter from its first byte to its last, about 0.1 s for a megabyte and far more
for some files. So a large file is parsed by a process of its own, which is killed with the call.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

import msgspec

from windlass.errors import ConfigError
from windlass.toolbox.edits.plans import EditRequest, Planned
from windlass.toolbox.edits.refusal import EditRefused, RefusalCode

SMALL: Final = 64_000  # bytes of a file that is parsed here
SECONDS: Final = 60.0
_START: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from windlass.toolbox.edits.worker import main; main()"
)


class _Task(msgspec.Struct, frozen=True):
    request: EditRequest
    path: str
    data: bytes


class _Answer(msgspec.Struct, frozen=True):
    planned: Planned | None = None
    code: RefusalCode | None = None
    message: str = ""
    candidates: tuple[str, ...] = ()


async def plan_edit(request: EditRequest, data: bytes, path: str) -> Planned:
    """Plan an edit of a file's content; `EditRefused` as the request raises it."""
    if len(data) <= SMALL:
        return await asyncio.to_thread(request.plan, data, path)
    task = msgspec.msgpack.encode(_Task(request, path, data))
    return _read_answer(await _run_process(task), path)


async def _run_process(task: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _START,
        json.dumps(sys.path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            answer, _ = await process.communicate(task)
    except TimeoutError:
        raise EditRefused(
            "file", f"the file takes over {SECONDS:g} s to parse: use edit_safe_text_patch"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return answer


def _read_answer(data: bytes, path: str) -> Planned:
    try:
        answer = msgspec.msgpack.decode(data, type=_Answer)
    except msgspec.DecodeError:
        raise EditRefused("file", f"{path} cannot be parsed: the parser stopped") from None
    if answer.planned is not None:
        return answer.planned
    if answer.code is None:
        raise ConfigError(answer.message)
    raise EditRefused(answer.code, answer.message, answer.candidates)


def main() -> None:
    """Plan the edit that stands on the standard input, and write the answer to the output."""
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Task)
    try:
        answer = _Answer(task.request.plan(task.data, task.path))
    except EditRefused as error:
        answer = _Answer(None, error.code, str(error), error.candidates)
    except ConfigError as error:
        answer = _Answer(None, None, str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
