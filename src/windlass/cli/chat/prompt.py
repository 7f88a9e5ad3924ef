"""Messages from a terminal: a line, or several lines that were pasted together.

A terminal marks what is pasted (bracketed paste). GNU readline reads the marks where it is there;
without it they arrive as text, and are read here.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

PASTE_BEGINS: Final = "\x1b[200~"
PASTE_ENDS: Final = "\x1b[201~"
_MARK_PASTES: Final = "\x1b[?2004h"
_DO_NOT_MARK: Final = "\x1b[?2004l"


@contextmanager
def catch_interrupts() -> Generator[None]:
    """Raise `KeyboardInterrupt` on Ctrl-C in the block, although an event loop listens for it."""
    try:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # not the main thread: nobody presses keys here
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


class MessagePrompt:
    """Reads messages at a prompt, with history and editing where readline is there."""

    def __init__(self) -> None:
        self._has_readline = _use_readline()

    def read(self, prompt: str = "> ") -> str:
        """Read one message; raise `EOFError` at the end, `KeyboardInterrupt` on Ctrl-C."""
        if self._has_readline:
            return _join_paste(input(prompt))
        sys.stdout.write(_MARK_PASTES)
        sys.stdout.flush()
        try:
            return _join_paste(input(prompt))
        finally:
            sys.stdout.write(_DO_NOT_MARK)
            sys.stdout.flush()

    def choose(self, prompt: str, answers: dict[str, str]) -> str | None:
        """Ask until one of the answers is given, in short or in full; None at the end."""
        while True:
            try:
                given = input(prompt).strip().lower()
            except (EOFError, KeyboardInterrupt):
                sys.stdout.write("\n")
                return None
            for short, whole in answers.items():
                if given in (short, whole):
                    return whole


def _join_paste(line: str) -> str:
    """Read on to the end of a paste that begins in this line, and take the marks out."""
    while PASTE_BEGINS in line and PASTE_ENDS not in line.rpartition(PASTE_BEGINS)[2]:
        line += "\n" + input()
    return line.replace(PASTE_BEGINS, "").replace(PASTE_ENDS, "").replace("\r", "\n")


def _use_readline() -> bool:
    """Load readline and let it read pastes; return whether it can."""
    try:
        readline = import_module("readline")
    except ImportError:
        return False
    if "libedit" in (readline.__doc__ or ""):
        return False
    # Python switches it off, because its own prompt cannot show several lines.
    readline.parse_and_bind("set enable-bracketed-paste on")
    return True
