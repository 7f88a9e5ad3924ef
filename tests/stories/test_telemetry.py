"""Spans for OpenTelemetry: what a run, a model call and a tool call tell whoever records them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

import windlass as w
from windlass import errors
from windlass.models.base import Request, Response
from windlass.observe import otel
from windlass.testing import call, scripted
from windlass.usage import Usage


class Recorded:
    """The spans that ended, by name."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A program that has set OpenTelemetry up."""
    monkeypatch.delenv(otel.CAPTURE, raising=False)
    recorded = Recorded()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(recorded.exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return recorded


def below(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return child.parent is not None and child.parent.span_id == parent.context.span_id


@w.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_a_run_is_a_span_with_its_calls_below(spans: Recorded):
    model = scripted(call("add", a=1, b=2), "3", usage={"input_tokens": 10, "output_tokens": 5})
    agent = w.Agent(model, name="adder", tools=[add], temperature=0.5)
    out = await agent.run("What is 1 + 2?", session_id="s1")
    run = spans.one("invoke_agent adder")
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.agent.name": "adder",
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "windlass.run.id": out.run_id,
        "windlass.session.id": "s1",
        "windlass.door": "agent",
        "windlass.turns": 2,
        "windlass.status": "done",
        "windlass.stop_reason": "natural",
    }
    assert run.status.status_code is StatusCode.UNSET and run.parent is None
    first, second = spans.named("chat scripted")
    assert below(first, run) and below(second, run)
    assert first.kind is trace.SpanKind.CLIENT
    assert first.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.conversation.id": "s1",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    tool = spans.one("execute_tool add")
    assert below(tool, run)
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Add.",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.conversation.id": "s1",
        "windlass.tool.effect": "plain",
    }
    scope = tool.instrumentation_scope
    assert scope is not None and scope.name == "windlass" and scope.schema_url == otel.SCHEMA


async def test_what_a_reply_says_of_itself(spans: Recorded):
    usage = Usage(100, 20, cache_read_tokens=80, cache_write_tokens=5, reasoning_tokens=7)
    reply = Response(
        w.Message("assistant", "hi"), usage, "max_tokens", "big-2", "msg_1", attempts=2
    )
    await w.Agent(scripted(reply)).run("hello", conversation_id="talk-9")
    told = spans.one("chat scripted").attributes
    assert told["gen_ai.response.model"] == "big-2" and told["gen_ai.response.id"] == "msg_1"
    assert told["gen_ai.response.finish_reasons"] == ("length",)
    assert told["gen_ai.usage.cache_read.input_tokens"] == 80
    assert told["gen_ai.usage.cache_creation.input_tokens"] == 5
    assert told["gen_ai.usage.reasoning.output_tokens"] == 7
    assert told["gen_ai.conversation.id"] == "talk-9" and told["windlass.attempts"] == 2


async def test_words_are_not_in_spans_unless_asked_for(spans: Recorded):
    model = scripted(call("add", a=41041, b=1), "the secret answer")
    await w.Agent(model, tools=[add], system="sys-words").run("the secret question")
    text = repr([(s.attributes, s.events, s.status.description) for s in spans.all])
    for words in ("secret answer", "secret question", "41041", "sys-words"):
        assert words not in text


async def test_words_are_captured_redacted_when_asked_for(
    spans: Recorded, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(otel.CAPTURE, "true")
    model = scripted(call("add", a=41, b=1), "42, and the key is sk-hush-hush-123456")
    async with w.Runtime(secrets=("sk-hush-hush-123456",)):
        await w.Agent(model, tools=[add], system="Be brief.").run("sum sk-hush-hush-123456")
    first, second = [span.attributes for span in spans.named("chat scripted")]
    asked = json.loads(second["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
    assert asked[1]["parts"][0] == {
        "type": "tool_call",
        "id": "call_1",
        "name": "add",
        "arguments": {"a": 41, "b": 1},
    }
    assert asked[2]["parts"][0] == {"type": "tool_call_response", "id": "call_1", "response": "42"}
    (said,) = json.loads(second["gen_ai.output.messages"])
    assert said["finish_reason"] == "stop" and said["parts"][0]["content"].startswith("42")
    assert json.loads(first["gen_ai.system_instructions"])[0]["content"] == "Be brief."
    assert json.loads(first["gen_ai.tool.definitions"])[0]["name"] == "add"
    tool = spans.one("execute_tool add").attributes
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"a": 41, "b": 1}
    assert tool["gen_ai.tool.call.result"] == "42"
    assert "hush" not in repr([span.attributes for span in spans.all])


async def test_the_configuration_can_ask_for_words_or_for_no_spans(spans: Recorded, tmp_path: Path):
    file = tmp_path / "windlass.toml"
    file.write_text("[telemetry]\ncapture_content = true\n")
    async with w.Runtime(config=file):
        await w.Agent(scripted("hi")).run("hello")
    assert "gen_ai.output.messages" in (spans.one("chat scripted").attributes or {})
    spans.exporter.clear()
    file.write_text("[telemetry]\nenabled = false\n")
    async with w.Runtime(config=file):
        await w.Agent(scripted("hi")).run("hello")
    assert spans.all == []


async def test_tools_side_by_side_each_have_their_own_context(spans: Recorded):
    seen: dict[str, Any] = {}
    both = asyncio.Barrier(2)

    @w.tool
    async def one() -> str:
        """One."""
        await both.wait()
        seen["one"] = trace.get_current_span().get_span_context().span_id
        return "1"

    @w.tool
    def two() -> str:
        """Two, in a thread."""
        seen["two"] = trace.get_current_span().get_span_context().span_id
        seen["thread"] = threading.get_ident()
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(both.wait()))
        return "2"

    loop = asyncio.get_running_loop()
    await w.Agent(scripted([call("one"), call("two")], "ok"), tools=[one, two]).run("go")
    run = spans.one("invoke_agent")
    for name in ("one", "two"):
        span = spans.one(f"execute_tool {name}")
        assert below(span, run) and span.context.span_id == seen[name]
    assert seen["thread"] != threading.get_ident()


async def test_reads_that_start_early_are_below_the_run_and_not_below_the_reply(spans: Recorded):
    @w.tool(side_effect_level="read_only")
    async def look() -> str:
        """Look."""
        return "seen"

    await w.Agent(scripted([call("look")], "ok", stream=True), tools=[look]).run("go")
    assert below(spans.one("execute_tool look"), spans.one("invoke_agent"))


async def test_a_called_agent_is_below_its_call_and_all_is_one_trace(spans: Recorded):
    inner = w.Agent(scripted("looked"), name="inner")
    outer = w.Agent(
        scripted(call("inner", task="x"), "done"), name="outer", tools=[inner.as_tool()]
    )
    tracer = trace.get_tracer("the host")
    with tracer.start_as_current_span("request"):
        await outer.run("go")
    request, run = spans.one("request"), spans.one("invoke_agent outer")
    tool, child = spans.one("execute_tool inner"), spans.one("invoke_agent inner")
    assert below(run, request) and below(tool, run) and below(child, tool)
    below_child = [span for span in spans.named("chat scripted") if below(span, child)]
    assert len(below_child) == 1
    assert len({span.context.trace_id for span in spans.all}) == 1


async def test_failures_have_a_type(spans: Recorded):
    @w.tool
    async def broken() -> str:
        """Broken."""
        raise RuntimeError("the customer's name is in here")

    model = scripted(call("broken"), then=errors.RateLimited("slow down, customer"))
    out = await w.Agent(model, tools=[broken]).run("go")
    assert out.status == "provider_error"
    tool = spans.one("execute_tool broken")
    assert tool.attributes["error.type"] == "error" and tool.status.status_code is StatusCode.ERROR
    failed = spans.named("chat scripted")[1]
    assert failed.attributes["error.type"] == "rate_limit"
    run = spans.one("invoke_agent")
    assert run.status.status_code is StatusCode.ERROR
    assert run.attributes["error.type"] == "rate_limit"
    assert "customer" not in repr(
        [(s.attributes, s.events, s.status.description) for s in spans.all]
    )


async def test_a_cancelled_run_ends_its_spans(spans: Recorded):
    waits = asyncio.Event()

    async def never(_request: Request) -> str:
        waits.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(w.Agent(scripted(never)).run("go"))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert spans.one("chat scripted").attributes["error.type"] == "cancelled"
    assert spans.one("invoke_agent").attributes["error.type"] == "cancelled"


async def test_a_parked_run_is_no_error(spans: Recorded):
    fetch = w.Tool(name="fetch", description="Fetch.", parameters={})
    out = await w.Agent(scripted(call("fetch")), tools=[fetch]).run("go")
    assert out.status == "suspended"
    run = spans.one("invoke_agent")
    assert run.attributes["windlass.status"] == "suspended"
    assert "error.type" not in (run.attributes or {})


async def test_a_judge_is_a_chat_with_its_purpose(spans: Recorded):
    class Judge(w.Policy):
        async def before_finish(self, run, turn, finish):
            request = Request((w.Message("user", "good?"),))
            await run.ask(request, "judge", scripted("y", name="small"))

    await w.Agent(scripted("done"), policies=[Judge()]).run("go")
    judge = spans.one("chat small")
    assert judge.attributes["windlass.purpose"] == "judge"
    assert below(judge, spans.one("invoke_agent"))


async def test_a_single_call_is_a_span(spans: Recorded):
    with trace.get_tracer("the host").start_as_current_span("request"):
        await w.llm_call("hi", model=scripted("ho", name="m"))
    chat = spans.one("chat m")
    assert below(chat, spans.one("request"))
    assert chat.attributes["gen_ai.usage.output_tokens"] == 5


async def test_nothing_is_built_when_nobody_records(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: TracerProvider(ALWAYS_OFF))

    def never(*_: Any) -> Any:
        raise AssertionError("built for nobody")

    monkeypatch.setattr(otel, "Spans", never)
    out = await w.Agent(scripted(call("add", a=1, b=2), "3"), tools=[add]).run("go")
    assert out.status == "done"


async def test_a_tracer_that_fails_does_not_fail_the_run(
    monkeypatch: pytest.MonkeyPatch, spans: Recorded, caplog: pytest.LogCaptureFixture
):
    def broken(*_: Any) -> Any:
        raise RuntimeError("no attributes today")

    monkeypatch.setattr(otel.Spans, "_request_attributes", broken)
    monkeypatch.setattr(otel.Spans, "_end", broken)
    out = await w.Agent(scripted("hi")).run("go")
    assert out.status == "done" and len(spans.all) == 2
    assert "a span is incomplete" in caplog.text


async def test_an_api_that_nobody_set_up_costs_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otel, "_Kit", None)  # calling it would be logged as a failure
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(otel.log, "exception", lambda *_: pytest.fail("it was asked"))
    assert (await w.Agent(scripted("hi")).run("go")).status == "done"
    assert (await w.llm_call("hi", model=scripted("ho"))).text == "ho"


def test_without_opentelemetry_nothing_of_it_is_loaded():
    code = (
        "import sys, windlass as w\n"
        "from windlass.testing import scripted\n"
        "assert w.Agent(scripted('hello')).run_sync('hi').output == 'hello'\n"
        "print([n for n in sys.modules if n.startswith('opentelemetry') or n == 'windlass.observe.otel'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
