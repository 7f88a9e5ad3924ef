"""Reads that start while the model still writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.events import StreamRestarted, ToolCallReady, ToolDecided, ToolIntended
from windlass.models.base import Emit
from windlass.testing import call, run_virtual, scripted


def reading(name: str, seconds: float, log: list[str]) -> w.Tool:
    async def handler(args: dict[str, Any]) -> str:
        log.append(name)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            log.append(f"{name} cancelled")
            raise
        return f"{name} {args.get('n', '')}".strip()

    anything = {"type": "object"}
    return w.Tool(name, "Look.", anything, handler=handler, side_effect_level="read_only")


def writing(name: str, log: list[str]) -> w.Tool:
    async def handler(args: dict[str, Any]) -> str:
        log.append(name)
        return name

    return w.Tool(name, "Do.", {"type": "object"}, handler=handler)


class Slow(w.Model):
    """Streams its pieces one second apart, then ends with the whole reply; then says "ok"."""

    def __init__(self, *pieces: Any, reply: tuple[Any, ...] | None = None) -> None:
        self.pieces, self.reply, self.requests = pieces, reply, []

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        self.requests.append(request)
        if len(self.requests) > 1:
            return w.Response(w.Message("assistant", "ok"), w.Usage(1, 1))
        for piece in self.pieces:
            if isinstance(piece, BaseException):
                raise piece
            emit(ToolCallReady(piece) if isinstance(piece, w.ToolCall) else piece)
            await asyncio.sleep(1)
        blocks = self.reply if self.reply is not None else self.pieces
        return w.Response(w.Message("assistant", tuple(blocks)), w.Usage(1, 1), "tool_use")


def asked(name: str, call_id: str, **arguments: Any) -> w.ToolCall:
    return w.ToolCall(call_id, name, arguments)


def story(coroutine: Any) -> Any:
    return run_virtual(coroutine)


async def timed(agent: w.Agent[Any, Any]) -> tuple[w.AgentResult[Any], float]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    out = await agent.run("go")
    return out, loop.time() - began


def test_a_read_overlaps_the_writing_of_the_rest():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("look", "b"), asked("look", "c"))
        out, seconds = await timed(w.Agent(model, tools=[reading("look", 3, log)]))
        assert seconds == pytest.approx(5)  # the last begins at 2 and takes 3; else 3 + 3
        assert [record.outcome for record in out.tool_calls] == ["ok"] * 3
        assert all(e.eager for e in out.entries if isinstance(e, ToolIntended))
        await kept(out, model)

    story(told())


def test_it_can_be_turned_off():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("look", "b"), asked("look", "c"))
        agent = w.Agent(model, tools=[reading("look", 3, log)], eager_tools=False)
        out, seconds = await timed(agent)
        assert seconds == pytest.approx(6)
        assert not any(e.eager for e in out.entries if isinstance(e, ToolIntended))

    story(told())


def test_effects_are_never_early():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("act", "a"), asked("look", "b"))
        tools = [writing("act", log), reading("look", 3, log)]
        out, seconds = await timed(w.Agent(model, tools=tools))
        assert seconds == pytest.approx(5), "and no read overtakes a write asked first"
        assert not any(e.eager for e in out.entries if isinstance(e, ToolIntended))
        await kept(out, model)

    story(told())


def test_only_the_leading_reads_are_early():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("act", "b"), asked("look", "c"))
        out, _ = await timed(w.Agent(model, tools=[writing("act", log), reading("look", 1, log)]))
        intents = {e.call_id: e.eager for e in out.entries if isinstance(e, ToolIntended)}
        assert intents == {"a": True, "b": False, "c": False}
        await kept(out, model)

    story(told())


def test_the_gate_is_asked_once():
    asks: list[str] = []

    class Gate(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> None:
            asks.append(call.id)

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("look", "b"))
        out, _ = await timed(w.Agent(model, tools=[reading("look", 1, [])], policies=[Gate()]))
        assert asks == ["a", "b"]
        assert [e.call_id for e in out.entries if isinstance(e, ToolDecided)] == ["a", "b"]
        await kept(out, model)

    story(told())


def test_a_no_ends_the_early_starts_and_is_the_answer():
    log: list[str] = []

    asks: list[str] = []

    class NoB(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolResult | None:
            asks.append(call.id)
            if call.id == "b":
                return w.ToolResult(content="no", is_error=True, outcome="denied")
            return None

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("look", "b"), asked("look", "c"))
        agent = w.Agent(model, tools=[reading("look", 1, log)], policies=[NoB()])
        out, _ = await timed(agent)
        assert sorted(r.outcome for r in out.tool_calls) == ["denied", "ok", "ok"]
        intents = {e.call_id: e.eager for e in out.entries if isinstance(e, ToolIntended)}
        assert intents == {"a": True, "c": False}
        assert asks == ["a", "b", "c"], "nobody is asked twice"
        await kept(out, model)

    story(told())


def test_what_the_reply_does_not_contain_in_the_end_is_thrown_away():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a", n=1), reply=(asked("look", "a", n=2),))
        out, _ = await timed(w.Agent(model, tools=[reading("look", 5, log)]))
        assert sorted(log) == ["look", "look", "look cancelled"]
        assert [record.result for record in out.tool_calls] == ["look 2"]
        await kept(out, model)

    story(told())


def test_a_stream_that_begins_again_is_not_trusted():
    log: list[str] = []

    async def told() -> None:
        pieces = (asked("look", "a"), StreamRestarted("again"), asked("look", "b"))
        model = Slow(*pieces, reply=(asked("look", "b"),))
        out, _ = await timed(w.Agent(model, tools=[reading("look", 9, log)]))
        assert sorted(log) == ["look", "look", "look cancelled"]
        assert [record.id for record in out.tool_calls] == ["b"]
        await kept(out, model)

    story(told())


def test_a_reply_that_fails_takes_its_early_reads_with_it():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a"), w.BadRequest("busy"))
        out, _ = await timed(w.Agent(model, tools=[reading("look", 9, log)]))
        assert (out.status, log) == ("provider_error", ["look", "look cancelled"])
        await kept(out, None)

    story(told())


@pytest.mark.parametrize(("limit", "early"), [(1, 1), (2, 2), (5, 4)])
def test_early_reads_keep_within_the_limit(limit: int, early: int):
    async def told() -> None:
        model = Slow(*(asked("look", f"c{n}") for n in range(4)))
        agent = w.Agent(model, tools=[reading("look", 30, [])], max_concurrent_tools=limit)
        out, _ = await timed(agent)
        intents = [e.eager for e in out.entries if isinstance(e, ToolIntended)]
        assert intents.count(True) == early
        assert [record.outcome for record in out.tool_calls] == ["ok"] * 4
        await kept(out, model)

    story(told())


def test_an_early_start_is_silent_until_the_reply_is_whole():
    seen: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("look", "b"))
        agent = w.Agent(model, tools=[reading("look", 0, [])])
        from windlass.events import kind_of

        await agent.run("go", on_event=lambda event: seen.append(kind_of(event)))
        assert seen.index("model_reply") < seen.index("tool_call")
        assert seen.count("tool_call") == 2

    story(told())


def test_an_id_used_twice_starts_one_read():
    log: list[str] = []

    async def told() -> None:
        model = Slow(asked("look", "a", n=1), asked("look", "a", n=1))
        out, _ = await timed(w.Agent(model, tools=[reading("look", 4, log)]))
        assert log == ["look", "look"]
        assert len({record.id for record in out.tool_calls}) == 2
        await kept(out, model)

    story(told())


def test_a_gate_that_fails_while_the_reply_streams_fails_the_run_once():
    asks: list[str] = []

    class Breaks(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> None:
            asks.append(call.id)
            raise RuntimeError("no gate")

    async def told() -> None:
        model = Slow(asked("look", "a"), asked("look", "b"))
        agent = w.Agent(model, tools=[reading("look", 1, [])], policies=[Breaks()])
        out, _ = await timed(agent)
        assert (out.status, out.error and out.error["message"]) == ("failed", "no gate")
        assert asks == ["a"]
        await kept(out, model)

    story(told())


async def test_a_reply_that_does_not_stream_is_the_same():
    model = scripted([call("look", n=1), call("look", n=2)], "ok")
    out = await w.Agent(model, tools=[reading("look", 0, [])]).run("go")
    assert [record.result for record in out.tool_calls] == ["look 1", "look 2"]
    await kept(out, model)


def test_a_dropped_reply_takes_its_early_reads_with_it():
    log: list[str] = []

    class DropFirst(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> w.KeepGoing | None:
            return w.KeepGoing("again", drop=True) if turn.number == 1 else None

    async def told() -> None:
        model = Slow(asked("look", "a"))
        agent = w.Agent(model, tools=[reading("look", 50, log)], policies=[DropFirst()])
        out, seconds = await timed(agent)
        assert (out.status, out.output) == ("done", "ok")
        assert log == ["look", "look cancelled"]
        assert seconds < 50
        await kept(out, model)

    story(told())
