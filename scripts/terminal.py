"""A shell and a Python prompt that a script types into, as a person would.

Needs nothing but the standard library: what is typed runs in the environment that it is given.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from pathlib import Path

_PROMPTS = re.compile(r"^(?:(?:>>>|\.\.\.) )+", re.MULTILINE)
# Printed after a pasted block, so that its output has an end; no program of ours prints it.
_END = "\x1e"


def run_line(line: str, folder: Path, env: dict[str, str], timeout: float) -> tuple[int, str]:
    """Type a line into a shell; return its exit code and everything that it printed."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout


class Prompt:
    """A Python prompt in a process of its own, for blocks that await."""

    def __init__(self, python: str | Path, folder: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(python), "-m", "asyncio"],
            cwd=folder,
            env=env | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.paste("")

    def paste(self, code: str, timeout: float = 60) -> str:
        """Paste a block, press Enter, and return what was printed."""
        assert self._process.stdin is not None
        text = f"{code.rstrip()}\n\nprint({_END!r})\n"
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()
        printed = self._read_until_end(time.monotonic() + timeout)
        return _PROMPTS.sub("", printed).strip("\n")

    def leave(self) -> None:
        """Leave the prompt as `exit()` does."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.write(b"exit()\n")
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process.stdout.close()

    def _read_until_end(self, deadline: float) -> str:
        assert self._process.stdout is not None
        found = b""
        while _END.encode() not in found:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"the prompt did not answer:\n{found.decode(errors='replace')}")
            if select.select([self._process.stdout], [], [], left)[0]:
                piece = os.read(self._process.stdout.fileno(), 65536)
                if not piece:
                    raise EOFError(f"the prompt ended:\n{found.decode(errors='replace')}")
                found += piece
        return found.decode(errors="replace").partition(_END)[0]
