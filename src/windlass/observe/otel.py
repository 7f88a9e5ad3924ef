"""OpenTelemetry: a span for every run, model call and tool call, by GenAI conventions.

Nothing is imported and nothing is built unless the program itself uses OpenTelemetry and the span
of the run records. Content is kept out of spans unless `[telemetry] capture_content` or
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from windlass import __version__, seams
from windlass.errors import attribute, error_text
from windlass.json_types import JsonObject, as_given
from windlass.loop.run import Run
from windlass.loop.verdict import Outcome
from windlass.messages import Message, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Emit, Model, Request, Response
from windlass.models.registry.scope import environ
from windlass.observe.telemetry import TelemetryConfig
from windlass.tools.result import format_frames, format_traceback
from windlass.tools.tool import Parked, Tool, ToolContext

if TYPE_CHECKING:
    from windlass.config.loader import Config
    from windlass.redaction.redactor import Redactor

log = logging.getLogger("windlass")

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LONGEST = 65_536  # characters of one captured attribute

# Names of providers in the conventions, where they differ.
_PROVIDERS = {
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure_openai": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
_FINISHED = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "refusal": "content_filter",
}
_SETTINGS = (
    ("max_tokens", "gen_ai.request.max_tokens"),
    ("temperature", "gen_ai.request.temperature"),
    ("top_p", "gen_ai.request.top_p"),
    ("top_k", "gen_ai.request.top_k"),
    ("frequency_penalty", "gen_ai.request.frequency_penalty"),
    ("presence_penalty", "gen_ai.request.presence_penalty"),
    ("seed", "gen_ai.request.seed"),
    ("stop", "gen_ai.request.stop_sequences"),
)


def trace_run(
    run: Run, driving: Coroutine[Any, Any, Outcome], settings: Callable[[], Config]
) -> Coroutine[Any, Any, Outcome]:
    """Drive a run in its span, with its calls below; unchanged where nothing records."""
    try:
        kit = _kit(settings)
        span = None if kit is None else _run_span(kit, run)
        if kit is None or span is None or not span.is_recording():
            return driving
        context = kit.trace.set_span_in_context(span)
        conversation = run.host.conversation_id or run.session_id
        spans = run.around = Spans(kit, span, context, run.redactor, conversation)
    except Exception:
        log.exception("no spans for run %s", run.run_id)
        return driving
    return spans.over(run, driving)


def spans_of_call(settings: Callable[[], Config], redactor: Redactor | None) -> Spans | None:
    """Build the spans of a call outside any run, below the current span."""
    try:
        kit = _kit(settings)
        return None if kit is None else Spans(kit, None, None, redactor, None)
    except Exception:
        log.exception("no span for a model call")
        return None


class _Kit:
    """OpenTelemetry's modules, a tracer, and whether content is captured."""

    def __init__(self, capture: bool) -> None:
        self.trace: Any = import_module("opentelemetry.trace")
        self.tracer: Any = self.trace.get_tracer("windlass", __version__, schema_url=SCHEMA)
        self.capture = capture


def _kit(settings: Callable[[], Config]) -> _Kit | None:
    chosen = settings().get(TelemetryConfig)
    if not chosen.enabled:
        return None
    asked = environ().get(CAPTURE, "").strip().lower()
    return _Kit(chosen.capture_content or asked in ("true", "1", "span_only", "span_and_event"))


def _run_span(kit: _Kit, run: Run) -> Any:
    plan = run.plan
    name = f"invoke_agent {plan.name}" if plan.name else "invoke_agent"
    attributes: JsonObject = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": _provider(run.model.provider),
        "gen_ai.request.model": run.model.name,
        "gen_ai.conversation.id": run.host.conversation_id or run.session_id,
        "windlass.run.id": run.run_id,
        "windlass.session.id": run.session_id,
        "windlass.door": plan.door,
    }
    if plan.name:
        attributes["gen_ai.agent.name"] = plan.name
    return kit.tracer.start_span(name, kind=kit.trace.SpanKind.INTERNAL, attributes=attributes)


class Spans:
    """Spans of one run's calls, below that of the run."""

    def __init__(
        self,
        kit: _Kit,
        span: Any,
        context: Any,
        redactor: Redactor | None,
        conversation_id: str | None,
    ) -> None:
        self._kit, self._span, self._context = kit, span, context
        self._redactor, self._conversation = redactor, conversation_id

    def now(self) -> float:
        """Return the time."""
        return seams.now()

    async def over(self, run: Run, driving: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Drive the whole run, with its span as the current one."""
        outcome: Outcome | None = None
        with self._inside(self._span):
            try:
                outcome = await driving
                return outcome
            finally:
                self._quietly(lambda: self._end(run, outcome))
                self._span.end()

    def _end(self, run: Run, outcome: Outcome | None) -> None:
        span = self._span
        used = run.usage
        usage: JsonObject = {
            "gen_ai.usage.input_tokens": used.input_tokens,
            "gen_ai.usage.output_tokens": used.output_tokens,
            "windlass.turns": run.iteration,
        }
        if outcome is None:
            usage["error.type"] = "cancelled"
        else:
            usage["windlass.status"] = outcome.status
            if outcome.stop_reason:
                usage["windlass.stop_reason"] = outcome.stop_reason
            if outcome.status not in ("done", "idle", "suspended"):
                error = outcome.error or {}
                usage["error.type"] = str(error.get("category") or outcome.status)
        span.set_attributes(usage)
        if "error.type" in usage:
            error = outcome.error if outcome is not None else None
            self._set_error_status(
                span, usage["error.type"], str((error or {}).get("message") or "")
            )

    # ----------------------------------------------------------------- calls

    async def respond(
        self, model: Model, request: Request, emit: Emit, purpose: str | None
    ) -> Response:
        """Make the model call in a `chat` span."""
        span = self._start(
            f"chat {model.name}",
            "CLIENT",
            lambda: self._request_attributes(model, request, purpose),
        )
        with self._inside(span):
            try:
                response = await model.respond(request, emit)
            except BaseException as error:
                self._quietly(lambda error=error: self._set_exception(span, error))
                span.end()
                raise
        if span.is_recording() and isinstance(as_given(response), Response):
            self._quietly(lambda: span.set_attributes(self._response_attributes(model, response)))
        span.end()
        return response

    async def call(
        self, tool: Tool, arguments: JsonObject, context: ToolContext[Any]
    ) -> ToolResult | Parked:
        """Run the tool call in an `execute_tool` span, current inside the tool."""
        facts = lambda: self._tool_attributes(tool, arguments, context)  # noqa: E731
        span = self._start(f"execute_tool {tool.name}", "INTERNAL", facts)
        with self._inside(span):
            try:
                result = await tool.call(arguments, context)
            except BaseException as error:
                self._quietly(lambda error=error: self._set_exception(span, error))
                span.end()
                raise
        if span.is_recording():
            self._quietly(lambda: self._set_tool_result(span, result))
            scope = context.scope
            error = scope.calls.errors.get(context.call_id) if isinstance(scope, Run) else None
            if error is not None and isinstance(result, ToolResult) and result.is_error:
                self._quietly(lambda: self._add_exception(span, error))
        span.end()
        return result

    def _start(self, name: str, kind: str, facts: Callable[[], Mapping[str, Any]]) -> Any:
        kit = self._kit
        span = kit.tracer.start_span(
            name, context=self._context, kind=getattr(kit.trace.SpanKind, kind)
        )
        if span.is_recording():
            self._quietly(lambda: span.set_attributes(facts()))
        return span

    def _quietly(self, work: Callable[[], Any]) -> None:
        """Run telemetry code; a failure is logged and ignored."""
        try:
            work()
        except Exception:
            log.exception("a span is incomplete; the run goes on")

    def _inside(self, span: Any) -> AbstractContextManager[Any]:
        return self._kit.trace.use_span(
            span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        )

    # ----------------------------------------------------------------- attributes

    def _request_attributes(
        self, model: Model, request: Request, purpose: str | None
    ) -> Mapping[str, Any]:
        facts: JsonObject = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(model.provider),
            "gen_ai.request.model": model.name,
        }
        if self._conversation:
            facts["gen_ai.conversation.id"] = self._conversation
        settings = request.settings
        for setting, attribute_name in _SETTINGS:
            value = getattr(settings, setting)
            if value is not None:
                facts[attribute_name] = value
        if settings.schema is not None or settings.response_format is not None:
            facts["gen_ai.output.type"] = "json"
        if purpose is not None:
            facts["windlass.purpose"] = purpose
        if self._kit.capture:
            if request.system:
                facts["gen_ai.system_instructions"] = self._json(
                    [{"type": "text", "content": request.system}]
                )
            messages = (*request.messages, *request.tail)
            facts["gen_ai.input.messages"] = self._json(_messages(messages))
            if request.tools:
                facts["gen_ai.tool.definitions"] = self._json(
                    [
                        {
                            "type": "function",
                            "name": tool.name,
                            "description": tool.description,
                            "parameters": tool.parameters,
                        }
                        for tool in request.tools
                    ]
                )
        return facts

    def _response_attributes(self, model: Model, response: Response) -> Mapping[str, Any]:
        usage = response.usage
        reason = _FINISHED.get(response.stop_reason, response.stop_reason)
        facts: JsonObject = {
            "gen_ai.response.model": response.model or model.name,
            "gen_ai.response.finish_reasons": (reason,),
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
        }
        if response.native_id:
            facts["gen_ai.response.id"] = response.native_id
        if usage.cache_read_tokens:
            facts["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
        if usage.cache_write_tokens:
            facts["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
        if usage.reasoning_tokens:
            facts["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
        if response.provider:
            facts["gen_ai.provider.name"] = _provider(response.provider)
        if response.via:
            facts["windlass.via"] = response.via
        if response.attempts != 1:
            facts["windlass.attempts"] = response.attempts
        if self._kit.capture:
            (message,) = _messages((response.message,))
            facts["gen_ai.output.messages"] = self._json([{**message, "finish_reason": reason}])
        return facts

    def _tool_attributes(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext[Any]
    ) -> Mapping[str, Any]:
        facts: JsonObject = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": context.call_id,
            "gen_ai.tool.description": tool.description,
            "windlass.tool.effect": tool.effect,
        }
        if self._conversation:
            facts["gen_ai.conversation.id"] = self._conversation
        if context.attempt > 1:
            facts["windlass.attempts"] = context.attempt
        if self._kit.capture:
            facts["gen_ai.tool.call.arguments"] = self._json(arguments)
        return facts

    def _set_tool_result(self, span: Any, result: ToolResult | Parked) -> None:
        if isinstance(result, Parked):
            span.set_attribute("windlass.parked", self._clean(result.reason))
            return
        if self._kit.capture:
            span.set_attribute("gen_ai.tool.call.result", self._clean(result.text))
        if result.is_error or result.outcome != "ok":
            kind = result.outcome if result.outcome != "ok" else "error"
            span.set_attribute("error.type", kind)
            self._set_error_status(span, kind, result.text if self._kit.capture else "")

    # ----------------------------------------------------------------- failures and words

    def _set_exception(self, span: Any, error: BaseException) -> None:
        if not span.is_recording():
            return
        if isinstance(error, asyncio.CancelledError):
            kind = "cancelled"
        else:
            kind = attribute(error, "category") or type(error).__qualname__
        span.set_attribute("error.type", kind)
        code = attribute(error, "http_status")
        if code is not None and code.isdecimal():
            span.set_attribute("http.response.status_code", int(code))
        self._set_error_status(span, kind, str(error) if self._kit.capture else "")

    def _add_exception(self, span: Any, error: BaseException) -> None:
        """Add the traceback of what a tool raised; the message is content and may be withheld."""
        facts: JsonObject = {"exception.type": type(error).__qualname__}
        if self._kit.capture:
            facts["exception.message"] = self._clean(error_text(error))
            facts["exception.stacktrace"] = self._clean(format_traceback(error))
        else:
            facts["exception.stacktrace"] = self._clean(format_frames(error))
        span.add_event("exception", facts)

    def _set_error_status(self, span: Any, kind: str, words: str) -> None:
        """Set the status of an error; its message is content and may be withheld."""
        trace = self._kit.trace
        description = self._clean(words)[:1000] if words and self._kit.capture else kind
        span.set_status(trace.Status(trace.StatusCode.ERROR, description))

    def _json(self, value: Any) -> str:
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, OverflowError, RecursionError):
            text = repr(value)
        return self._clean(text)

    def _clean(self, text: str) -> str:
        if self._redactor is not None:
            text = self._redactor.text(text)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}… cut: {len(text)} characters"


def _provider(name: str) -> str:
    return _PROVIDERS.get(name, name)


def _messages(messages: Iterable[Message]) -> list[JsonObject]:
    """Convert messages to the conventions: a role and parts."""
    return [{"role": m.role, "parts": _parts(m.content)} for m in messages]


def _parts(blocks: Sequence[Any]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in blocks:
        match block:
            case Text():
                parts.append({"type": "text", "content": block.text})
            case Thinking():
                parts.append({"type": "reasoning", "content": block.text})
            case ToolCall():
                parts.append(
                    {
                        "type": "tool_call",
                        "id": block.id,
                        "name": block.name,
                        "arguments": block.arguments,
                    }
                )
            case ToolResult():
                parts.append({"type": "tool_call_response", "id": block.id, "response": block.text})
            case _:
                parts.append({"type": type(block).__name__.lower()})
    return parts
