"""Lines from standard input, read without holding the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from typing import Literal

from windlass.records import Record


class InputLine(Record, frozen=True):
    """The answer of `read_line`: `line.ok`, `line.value`, and why there is none in `line.status`."""

    ok: bool
    value: str
    """The line without its end."""
    status: Literal["ok", "closed", "invalid_text"]


class _Reader:
    """Standard input, which one thread reads at a time."""

    def __init__(self) -> None:
        self._waiting: Future[InputLine] | None = None

    def read(self) -> Future[InputLine]:
        """Begin to read a line, or return the read that a cancelled caller left."""
        if self._waiting is None:
            self._waiting = Future()
            # A daemon: a program may end while nobody types.
            threading.Thread(target=self._fill, args=(self._waiting,), daemon=True).start()
        return self._waiting

    def take(self) -> None:
        """Forget the line: it has reached its reader."""
        self._waiting = None

    @staticmethod
    def _fill(waiting: Future[InputLine]) -> None:
        try:
            waiting.set_result(_read_now())
        except BaseException as error:
            waiting.set_exception(error)


_reader = _Reader()


async def read_line() -> InputLine:
    """Read a line from standard input; other tasks run meanwhile.

    ```python
    line = await w.read_line()
    if not line.ok:
        print(line.status)
    ```
    `status` is `ok`, `closed` at the end of the input, or `invalid_text` for bytes that are no
    text. A line that was read for a cancelled caller is returned to the next one.
    """
    waiting = _reader.read()
    await asyncio.wait([asyncio.wrap_future(waiting)])
    _reader.take()
    return waiting.result()


def _read_now() -> InputLine:
    try:
        text = sys.stdin.readline()
    except UnicodeDecodeError:
        return InputLine(False, "", "invalid_text")
    except (ValueError, OSError, AttributeError):  # closed, or a program without one
        return InputLine(False, "", "closed")
    if not text:
        return InputLine(False, "", "closed")
    return InputLine(True, text.removesuffix("\n").removesuffix("\r"), "ok")
