"""Log output on standard error: one line each, without secrets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager

from windlass.cli.text import clean, one_line


@contextmanager
def on_stderr() -> Generator[None]:
    """Show warnings while a command runs; `tell_all` shows the rest."""
    library, root, handler = logging.getLogger("windlass"), logging.getLogger(), _Handler()
    level = library.level
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        library.setLevel(level)


def tell_all() -> None:
    """Show all log records, with tracebacks."""
    logging.getLogger("windlass").setLevel(logging.DEBUG)


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
        if logging.getLogger("windlass").level != logging.DEBUG:
            return head + one_line(record.getMessage())
        text = head + record.getMessage()
        if record.exc_text is None and record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        elif record.exc_text:
            text += "\n" + record.exc_text
        return clean(text)
