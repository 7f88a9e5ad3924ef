"""Every test has a Runtime of its own and a strict audit; nothing reaches a network."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest

from windlass import seams
from windlass.engine import environment as runtimes
from windlass.models.mock import llm_mock_clear
from windlass.runtime.runtime import Runtime
from windlass.testing import no_model_requests


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """Provide a fresh default Runtime: no file, no environment, an empty mock queue."""
    fresh = Runtime(store="memory:", environ={})
    monkeypatch.setattr(runtimes, "_default", fresh)
    monkeypatch.setattr(seams, "strict", True)
    llm_mock_clear()
    with no_model_requests():
        yield fresh
    llm_mock_clear()


class _Readable(logging.Filter):
    """Half characters in a captured log end a parallel test's process: its report cannot be sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            text = "".join(traceback.format_exception(record.exc_info[1]))
            record.exc_text = text.encode(errors="backslashreplace").decode()
        record.msg = record.getMessage().encode(errors="backslashreplace").decode()
        record.args = ()
        return True


@pytest.fixture(autouse=True)
def readable_logs():
    """Escape surrogates of hostile exceptions before pytest keeps them."""
    logger, readable = logging.getLogger("windlass"), _Readable()
    logger.addFilter(readable)
    yield
    logger.removeFilter(readable)
