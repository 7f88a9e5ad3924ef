"""What a run does by default is the same for every model: a provider's, the mock, a scripted, your own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept, note, own_tools
from windlass import seams
from windlass.events import Compacted, NativeToolFallback, ReplyFailed
from windlass.models.base import RETRY_DELAY
from windlass.models.estimates import estimate_messages
from windlass.models.mock import MockModel, MockQueue
from windlass.models.registry.providers import resolve
from windlass.testing import call, scripted

pytestmark = pytest.mark.virtual_time
WRITTEN = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'


class Own(w.Model):
    """A model as a user writes it: it answers with what it is given, in order."""

    provider, name = "own", "own"
    retry_delay = RETRY_DELAY

    def __init__(self, *replies: Any, then: Any = None) -> None:
        self.replies, self.then, self.asked = list(replies), then, 0

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.asked += 1
        reply = self.replies.pop(0) if self.replies else self.then
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        blocks = (reply,) if isinstance(reply, w.ToolCall) else (w.Text(reply),)
        return w.Response(w.Message("assistant", blocks), w.Usage(10, 5))


class Far(Own):
    remote = True


def mock(*replies: Any, then: Any = None) -> w.Model:
    queue = MockQueue()
    for reply in replies:
        match reply:
            case w.ModelError():
                queue.add(error={"category": reply.category, "message": str(reply)})
            case w.ToolCall():
                queue.add(tool_calls=[{"name": reply.name, "arguments": reply.arguments}])
            case _:
                queue.add(text=reply)
    return MockModel(queue=queue)


KINDS: dict[str, Callable[..., w.Model]] = {
    "own": Own,
    "far": Far,
    "scripted": scripted,
    "mock": mock,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def names(model: w.Model, **options: Any) -> list[str]:
    return [policy.name for policy in w.Agent(model, tools=[add, note], **options).plan.policies]


@pytest.mark.allow_model_requests
async def test_defaults_of_every_model_are_those_of_a_provider():
    real = resolve("openai:gpt-4o", environ={"OPENAI_API_KEY": "k"})
    expected = names(real)
    assert "compaction" in expected
    for kind, build in KINDS.items():
        assert names(build("x")) == expected, kind


@every_kind
async def test_a_failed_call_is_made_again(kind: str):
    model = KINDS[kind](w.Overloaded("busy"), w.ServerError("down"), "ok")
    started = seams.monotonic()
    out = await w.Agent(model).run("go")
    assert (out.status, out.output) == ("done", "ok")
    [reply] = [e for e in out.entries if e.__class__.__name__ == "Replied"]
    assert reply.attempts == 3
    waited = seams.monotonic() - started
    assert waited == 0 if kind in ("scripted", "mock") else 3 <= waited <= 6
    assert (await w.llm_call("go", model=KINDS[kind](w.Overloaded("busy"), "ok"))).text == "ok"


@every_kind
async def test_a_call_is_made_three_times_and_final_errors_once(kind: str):
    model = KINDS[kind](*[w.Overloaded("busy")] * 3, "late")
    out = await w.Agent(model).run("go")
    assert out.status == "provider_error"
    [failed] = [e for e in out.entries if type(e) is ReplyFailed]
    assert failed.attempts == 3
    final = await w.Agent(KINDS[kind](w.AuthFailed("no"), "late")).run("go")
    assert [e.attempts for e in final.entries if type(e) is ReplyFailed] == [1]
    once = w.with_retry(max_attempts=1)
    off = await w.Agent(KINDS[kind](w.Overloaded("busy"), "late"), llm_caller=once).run("go")
    assert off.status == "provider_error"


async def test_a_script_that_fails_waits_where_it_is_asked_to():
    started = seams.monotonic()
    caller = w.with_retry(backoff_ms=8000)
    out = await w.Agent(scripted(w.Overloaded("busy"), "ok"), llm_caller=caller).run("go")
    assert out.output == "ok" and 4 <= seams.monotonic() - started <= 8
    started = seams.monotonic()
    out = await w.Agent(scripted(w.RateLimited("slow", retry_after=30), "ok")).run("go")
    assert out.output == "ok" and seams.monotonic() - started == pytest.approx(30)


async def test_the_same_error_given_again_counts_each_attempt_once():
    agent = w.Agent(scripted(then=w.Overloaded("busy")))
    for _ in range(2):
        out = await agent.run("go")
        assert [e.attempts for e in out.entries if type(e) is ReplyFailed] == [3]


@every_kind
async def test_calls_that_are_written_as_text_run(kind: str):
    model = KINDS[kind](WRITTEN, "3")
    out = await w.Agent(model, tools=[add]).run("go")
    assert (out.output, out.tool_calls[0].result) == ("3", "3")
    assert any(type(e) is NativeToolFallback for e in out.entries)
    await kept(out)


@every_kind
async def test_an_empty_reply_is_asked_for_again(kind: str):
    out = await w.Agent(KINDS[kind]("", "ok"), tools=[add]).run("go")
    assert (out.output, out.turns) == ("ok", 1)


@pytest.mark.parametrize("kind", ["own", "far", "scripted"])
async def test_a_long_view_is_compacted_without_a_known_window(kind: str):
    @w.tool
    async def read() -> str:
        """Read a lot."""
        return "word " * 6_000

    def reply(request: w.Request) -> Any:
        if request.settings.max_tokens == 4_096:
            return "A summary."
        sizes.append(estimate_messages(request.messages))
        return call("read") if len(sizes) < 24 else "done"

    sizes: list[int] = []
    model = KINDS[kind](then=reply)
    if kind != "scripted":
        model.then = lambda request: with_id(reply(request), len(sizes))  # type: ignore[attr-defined]
    out = await w.Agent(model, tools=[read], max_turns=40).run("go")
    assert out.output == "done" and any(type(e) is Compacted for e in out.entries)
    assert max(sizes) < 90_000
    off = await w.Agent(scripted(*[call("read")] * 12, "x"), tools=[read], compaction=False).run(
        "go"
    )
    assert not any(type(e) is Compacted for e in off.entries)
    await kept(out)


def with_id(reply: Any, number: int) -> Any:
    return w.ToolCall(f"c{number}", reply.name, {}) if isinstance(reply, w.ToolCall) else reply


@pytest.mark.parametrize("kind", ["own", "far", "scripted"])
async def test_a_refused_size_is_compacted_and_sent_again(kind: str):
    def reply(request: w.Request) -> Any:
        if estimate_messages(request.messages) > 6_000:
            return w.ContextOverflow("prompt is too long")
        return "ok"

    past = [
        w.Message("user" if at % 2 == 0 else "assistant", (w.Text("word " * 200),))
        for at in range(30)
    ]
    out = await w.Agent(KINDS[kind](then=reply)).run([*past, w.Message("user", "And now?")])
    assert out.output == "ok"
    assert [e.reason for e in out.entries if type(e) is Compacted] == ["overflow"]


# --------------------------------------------------------------------------- narrowing


@w.tool(side_effect_level="read_only", kind="read")
async def look(path: str) -> str:
    """Look at a file."""
    return path


async def test_narrowing_is_off_for_an_agent_and_generate_unless_asked():
    asked = scripted(*[call("add", a=1, b=2)] * 20, "ok")
    out = await w.Agent(asked, tools=[add, look], max_turns=40).run("go")
    assert out.output == "ok"
    assert all(len(request.tools) == 2 for request in asked.requests)
    model = scripted(*[call("add", a=1, b=2)] * 20, "ok")
    loop = await w.agent_loop("go", model=model, tools=[add, look])
    assert loop.status == "done" and len(own_tools(model.requests[-1])) == 1


# --------------------------------------------------------------------------- timeout


class Slow(Own):
    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        await seams.sleep(10)
        return await super().respond(request, emit)


async def test_timeout_holds_for_a_model_of_this_process():
    started = seams.monotonic()
    out = await w.Agent(Slow("late"), llm_options={"timeout": 3}).run("go")
    assert (out.status, out.error["category"]) == ("provider_error", "timeout")
    assert out.error["message"] == "no reply within 3 s, the timeout of the call"
    assert seams.monotonic() - started == 3
    with pytest.raises(w.Timeout, match="within 3 s"):
        await w.llm_call("go", model=Slow("late"), timeout=3)
    assert (await w.llm_call("go", model=Slow("ok"), timeout=11)).text == "ok"
    await kept(out)


async def test_timeout_includes_retries_and_their_waits():
    model = Own(then=w.RateLimited("slow down", retry_after=20))
    started = seams.monotonic()
    with pytest.raises(w.Timeout, match="within 30 s"):
        await w.llm_call("go", model=model, timeout=30)
    assert (round(seams.monotonic() - started), model.asked) == (30, 2)


async def test_timeout_includes_schema_retries():
    model = Slow(then="no JSON")
    started = seams.monotonic()
    with pytest.raises(w.Timeout):
        await w.llm_call("go", model=model, timeout=25, schema={"a": "string"}, schema_retries=5)
    assert (round(seams.monotonic() - started), model.asked) == (25, 2)


async def test_timeout_of_a_call_is_no_cancellation_of_the_run():
    model = Slow(then="ok")
    agent = w.Agent(model, tools=[add], llm_options={"timeout": 3})
    task = asyncio.ensure_future(agent.run("go"))
    out = await task
    assert out.status == "provider_error" and not task.cancelled()
    stopped = asyncio.ensure_future(w.Agent(Slow("x"), llm_options={"timeout": 30}).run("go"))
    await seams.sleep(5)
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped


async def test_timeout_error_of_the_model_itself_is_its_own():
    class Odd(Own):
        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            raise TimeoutError("mine")

    out = await w.Agent(Odd(), llm_options={"timeout": 3}).run("go")
    assert (out.status, out.error["message"]) == ("failed", "mine")
