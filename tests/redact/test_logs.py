"""No secret reaches a log, not even in an exception."""

from __future__ import annotations

import io
import logging

import pytest

from windlass.redaction.redactor import (
    MARK,
    RedactingFilter,
    Redactor,
    Secret,
)

KEY = "sk-ant-0123456789abcdef"


@pytest.fixture
def log():
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        logging.Formatter("%(levelname)s %(message)s %(extra)s", defaults={"extra": "-"})
    )
    handler.addFilter(RedactingFilter(Redactor([KEY])))
    logger = logging.Logger("test.redact")
    logger.addHandler(handler)
    return logger, output


def test_message_arguments_and_extra_fields(log):
    logger, output = log
    logger.info("plain %s and %d", "text", 3)
    logger.warning(f"in the message {KEY}")
    logger.warning("in %s", {"arguments": [KEY]})
    logger.warning("beside", extra={"extra": f"x{KEY}"})
    logger.warning("held: %s", Secret(KEY))
    assert output.getvalue().splitlines() == [
        "INFO plain text and 3 -",
        f"WARNING in the message {MARK} -",
        "WARNING in {'arguments': ['" + MARK + "']} -",
        f"WARNING beside x{MARK}",
        "WARNING held: Secret(****) -",
    ]


def test_an_exception_with_its_causes(log):
    logger, output = log
    try:
        try:
            raise ValueError(f"refused {KEY}")
        except ValueError as error:
            raise RuntimeError("no luck") from error
    except RuntimeError:
        logger.exception("it failed")
    shown = output.getvalue()
    assert "RuntimeError: no luck" in shown
    assert f"ValueError: refused {MARK}" in shown
    assert KEY not in shown


def test_an_exception_without_secrets_reaches_the_formatter_whole(log):
    logger, output = log
    seen: list[logging.LogRecord] = []
    logger.handlers[0].addFilter(lambda record: bool(seen.append(record)) or True)
    try:
        raise ValueError("ordinary")
    except ValueError:
        logger.exception("it failed")
    assert seen[0].exc_info is not None
    assert "ValueError: ordinary" in output.getvalue()


def test_a_record_that_cannot_be_formatted_does_not_leak_its_parts(log, capsys):
    logger, _ = log
    logger.warning("two %s %s", KEY)
    assert KEY not in capsys.readouterr().err


def test_error_text():
    redactor = Redactor([KEY])
    error = ValueError(f"refused {KEY}")
    assert redactor.error(error) == f"ValueError: refused {MARK}"
    assert KEY not in redactor.traceback(error)
    assert "ValueError" in redactor.traceback(error)
