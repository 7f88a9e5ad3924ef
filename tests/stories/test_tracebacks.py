"""What a tool raised can be found: in the log, the journal, the trace and the span; never by the model."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import windlass as w
from tests.stories.helpers import kept
from windlass.events import ToolResulted
from windlass.observe import otel
from windlass.testing import call, scripted

KEY = "sk-very-secret-key-123456"


def charge(amount: int) -> int:
    return {}["ledger" + str(amount)]


@w.tool
async def pay(amount: int) -> str:
    """Pay."""
    return str(charge(amount))


@w.tool
def pay_in_thread(amount: int) -> str:
    """Pay, in a thread."""
    return str(charge(amount))


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass")


def of_tool(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "windlass.tools"]


def results(out: Any) -> list[ToolResulted]:
    return [entry for entry in out.entries if type(entry) is ToolResulted]


@pytest.mark.parametrize("tool", [pay, pay_in_thread])
async def test_traceback_of_a_tool_is_in_the_log_and_the_journal(
    tool: w.Tool, caplog: pytest.LogCaptureFixture
):
    model = scripted(call(tool.name, amount=7), "sorry")
    out = await w.Agent(model, tools=[tool]).run("go", session_id="s")
    [record] = of_tool(caplog)
    assert record.levelno == logging.INFO and record.exc_info is not None
    assert record.getMessage().startswith(
        f"tool {tool.name} failed: KeyError: 'ledger7' (session s"
    )
    [entry] = results(out)
    assert entry.traceback is not None and "in charge" in entry.traceback
    assert entry.traceback.startswith("Traceback (most recent call last):")
    assert entry.traceback.endswith("KeyError: 'ledger7'")
    assert "windlass/tools" not in entry.traceback  # ours are left out
    await kept(out, model)


async def test_traceback_reaches_neither_the_model_nor_the_result_of_the_call():
    model = scripted(call("pay", amount=7), "sorry")
    out = await w.Agent(model, tools=[pay]).run("go")
    shown = msgspec.json.encode(list(model.requests[-1].messages)).decode()
    assert "KeyError: 'ledger7'" in shown and "Traceback" not in shown and "in charge" not in shown
    assert "Traceback" not in out.tool_calls[0].result
    assert "Traceback" not in str(out.transcript)


async def test_what_a_tool_tells_the_model_is_no_failure(caplog: pytest.LogCaptureFixture):
    @w.tool
    async def picky(amount: int) -> str:
        """Be picky."""
        raise w.Retry("amount must be positive")

    out = await w.Agent(scripted(call("picky", amount=0), "ok"), tools=[picky]).run("go")
    assert of_tool(caplog) == [] and results(out)[0].traceback is None


async def test_traceback_of_a_retried_tool_is_logged_for_each_attempt_and_kept_only_if_it_failed(
    caplog: pytest.LogCaptureFixture,
):
    tries: list[int] = []

    @w.tool
    async def flaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise OSError("disk")
        return "ok"

    agent = w.Agent(scripted(call("flaky"), "ok"), tools=[flaky], tool_retries=2, tool_backoff_ms=0)
    out = await agent.run("go")
    assert len(of_tool(caplog)) == 1 and results(out)[0].outcome == "ok"
    assert results(out)[0].traceback is None


async def test_traceback_holds_no_secret(caplog: pytest.LogCaptureFixture, spans: Any):
    @w.tool
    async def leak() -> str:
        """Leak."""
        raise RuntimeError(f"refused key {KEY}")

    async with w.Runtime(store="memory:", environ={}, secrets=[KEY]):
        out = await w.Agent(scripted(call("leak"), "ok"), tools=[leak]).run("go")
    text = caplog.text + str(msgspec.to_builtins(results(out))) + str(spans.events())
    assert KEY not in text and "[redacted]" in caplog.text
    assert "[redacted]" in (results(out)[0].traceback or "")


async def test_traceback_of_a_hostile_error_is_kept_short(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL, "windlass.tools")  # half characters are not for a terminal

    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    @w.tool
    async def odd() -> str:
        """Raise what cannot be shown."""
        raise Odd

    @w.tool
    def deep(n: int) -> str:
        """Recurse without end."""
        return deep(n) + "x"

    @w.tool
    async def long() -> str:
        """Raise a long text."""
        raise ValueError("x\ud800" * 50_000)

    model = scripted(call("odd"), call("deep", n=1), call("long"), "ok")
    out = await w.Agent(model, tools=[odd, deep, long]).run("go")
    texts = [entry.traceback or "" for entry in results(out)]
    assert "Odd" in texts[0] and "RecursionError" in texts[1] and texts[2].startswith("…")
    assert all(0 < len(text) <= 16_384 and text.encode() for text in texts)
    await kept(out, model)


# --------------------------------------------------------------------------- spans


class Spans:
    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.exporter = exporter

    def events(self) -> list[dict[str, Any]]:
        spans = self.exporter.get_finished_spans()
        return [dict(event.attributes or {}) for span in spans for event in span.events]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    monkeypatch.delenv(otel.CAPTURE, raising=False)
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return Spans(exporter)


@pytest.mark.parametrize("captured", [False, True])
async def test_traceback_is_in_the_span_and_its_message_is_content(
    spans: Spans, captured: bool, monkeypatch: pytest.MonkeyPatch
):
    if captured:
        monkeypatch.setenv(otel.CAPTURE, "true")
    await w.Agent(scripted(call("pay", amount=7), "sorry"), tools=[pay]).run("go")
    [event] = spans.events()
    assert event["exception.type"] == "KeyError" and "in charge" in event["exception.stacktrace"]
    assert ("ledger7" in str(event)) is captured
    assert ("exception.message" in event) is captured


# --------------------------------------------------------------------------- loggers


def lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger]


@pytest.mark.virtual_time
async def test_loggers_tell_retries_fallbacks_and_calls_written_as_text(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO, "windlass")
    written = '<tool_call>{"name": "pay", "arguments": {"amount": 1}}</tool_call>'
    model = scripted(w.RateLimited("slow down", retry_after=3), written, "", "ok")
    await w.Agent(model, tools=[pay]).run("go")
    assert lines(caplog, "windlass.models") == [
        "scripted:scripted: attempt 1 of 3 failed (rate_limit: slow down); next in 3 s",
        "scripted:scripted: reading 1 tool calls written as text",
        "scripted:scripted: an empty reply; asking again",
    ]
    caplog.clear()
    caller = w.with_fallback([scripted("ok", name="second")])
    await w.Agent(scripted(w.AuthFailed("no key")), llm_caller=caller).run("go")
    assert lines(caplog, "windlass.models") == [
        "scripted:scripted failed (auth: no key); falling back on scripted:second"
    ]


async def test_loggers_tell_parks_resumes_and_limits(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "windlass")
    ask = w.Tool(name="ask", description="Ask somebody.")
    agent = w.Agent(scripted(call("ask"), "thanks"), tools=[ask], store="memory:")
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    await w.Agent(scripted(call("pay", amount=1)), tools=[pay], max_turns=1).run(
        "go", session_id="t"
    )
    run = out.run_id
    told = lines(caplog, "windlass.loop")
    assert told[:3] == [
        f"session s: run {run} is parked: ask is run by the host",
        f"session s: run {run} resumed at stage gate, attempt 0",
        f"session s: run {run} ended as done (natural) after 2 turns",
    ]
    assert "ended as budget_exhausted (max_iterations) after 1 turns" in told[3]


async def test_loggers_tell_compaction(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "windlass")
    past = [
        w.Message("user" if at % 2 == 0 else "assistant", (w.Text("word " * 200),))
        for at in range(30)
    ]
    model = scripted(w.ContextOverflow("too long"), "A summary.", "ok")
    out = await w.Agent(model).run([*past, w.Message("user", "now?")], session_id="s")
    assert out.output == "ok"
    [line] = lines(caplog, "windlass.loop")
    assert line.startswith("session s: compacted about ") and line.endswith("(overflow, llm)")
