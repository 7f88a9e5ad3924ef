"""Log output on standard error: one line each, without secrets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from windlass.cli.text import clean, one_line


@contextmanager
def on_stderr() -> Generator[None]:
    """Show warnings while a command runs; `tell_all` shows the rest."""
    root, handler = logging.getLogger(), _Handler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def tell_all() -> Callable[[], None]:
    """Show all log records, with tracebacks; return what ends that."""
    library = logging.getLogger("windlass")
    level = library.level
    library.setLevel(logging.DEBUG)
    return lambda: library.setLevel(level)


def _shows_all() -> bool:
    return logging.getLogger("windlass").level == logging.DEBUG


class _Handler(logging.Handler):
    """`windlass: warning: …`. The redactor stands here, so that no record passes it by."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Line())
        self._redacting = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Redact the record before it is handled."""
        if not self._redacting:  # most commands log nothing: the redactor is made for the first
            self._redacting = True
            # Loaded with the first record: most commands log nothing, and `--help` must be quick.
            from windlass.cli.redaction import RedactingFilter, secrets_here

            self.addFilter(RedactingFilter(secrets_here()))
        return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, with --debug also its traceback."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class _Line(logging.Formatter):
    """A record as one line; its traceback only with --debug."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the line."""
        head = f"windlass: {record.levelname.lower()}: "
        if not _shows_all():
            return head + one_line(record.getMessage())
        text = head + record.getMessage()
        if record.exc_text is None and record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        elif record.exc_text:
            text += "\n" + record.exc_text
        return clean(text)
