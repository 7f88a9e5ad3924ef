"""`with_logging`: a log line for every model call, without its content."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, cast

from windlass import seams
from windlass.callers.caller import Layer
from windlass.callers.contract import turn_under_way
from windlass.callers.options import function, takes_a_dict
from windlass.errors import ConfigError, attribute, error_text, nearest, safe_repr
from windlass.json_types import JsonObject, as_given
from windlass.loop.reply import cost_of
from windlass.models.base import Emit, Holding, Model, Request, Response
from windlass.models.wrappers.retry import attempt_under_way

log = logging.getLogger("windlass")
_LEVELS = ("debug", "info", "warning", "error")


class LoggedModel(Holding):
    """A model with logged calls."""

    def __init__(self, model: Model, layer: Logging) -> None:
        super().__init__(model)
        self.layer = layer

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the answer; log the outcome either way."""
        iteration, session_id = turn_under_way.get()
        record: JsonObject = {
            "provider": self.provider,
            "model": self.name,
            "session_id": session_id,
            "iteration": iteration,
            "attempt": attempt_under_way.get(),
            "messages": len(request.messages),
            "tools": len(request.tools),
        }
        started = seams.monotonic()
        try:
            response = await self.model.respond(request, emit)
        except BaseException as error:
            record |= {"ok": False, "duration_ms": (seams.monotonic() - started) * 1000}
            record |= {
                "kind": type(error).__name__,
                "category": attribute(error, "category"),
                "error": error_text(error, 500),
            }
            if isinstance(error, Exception):
                await self.layer.tell(record)
            raise
        usage = response.usage
        record |= {
            "ok": True,
            "duration_ms": (seams.monotonic() - started) * 1000,
            "provider": response.provider or self.provider,
            "model": response.model or self.name,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cost_usd": cost_of(self.model, usage),
            "stop_reason": response.stop_reason,
            "tool_calls": [call.name for call in response.message.tool_calls],
            "via": response.via,
        }
        await self.layer.tell(record)
        return response


class Logging(Layer):
    """The layer of `with_logging`."""

    name = "with_logging"

    def __init__(self, sink: Callable[[JsonObject], Any] | None, level: str) -> None:
        self.sink, self.level = sink, logging.getLevelNamesMapping()[level.upper()]

    def wrap(self, model: Model) -> Model:
        """Wrap the model, with logged calls."""
        return LoggedModel(model, self)

    async def tell(self, record: JsonObject) -> None:
        """Pass the record to the sink; a failing sink is logged and ignored."""
        if self.sink is None:
            text = " ".join(
                f"{name}={value}" for name, value in record.items() if value is not None
            )
            log.log(self.level, "model call: %s", text)
            return
        try:
            answer = self.sink(record)
            if isawaitable(answer):
                await cast("Any", answer)
        except Exception:
            log.exception("the sink of with_logging failed")


@takes_a_dict
def with_logging(sink: Callable[[JsonObject], Any] | None = None, *, level: str = "info") -> Layer:
    """Log every model call to `sink(record)`, or to the logger `windlass`.

    Example: `with_logging(records.append)`. A record has the model, the turn and session, the
    duration, tokens, cost, stop reason, names of the tools called, or the error. It has no content.
    """
    if level not in _LEVELS:
        hint = nearest(level, _LEVELS) if isinstance(as_given(level), str) else ""
        raise ConfigError(f"level is one of {_LEVELS}, not {safe_repr(level)}{hint}")
    return Logging(function("sink", sink), level)
