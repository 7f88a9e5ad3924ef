"""Going on from every place a journal can end: whatever was recorded, the run comes to the same end.

A finished session is cut after each row, as if the process had been killed there, and resumed by a
fresh Runtime with the same agent. The model is a function of what it is asked, so that both go the
same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.events import (
    IterationStart,
    JournalEntry,
    Replied,
    RunEnded,
    SessionOpened,
    ToolIntended,
    ToolResulted,
)
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing import call, scripted

_decode = msgspec.json.Decoder(list[JournalEntry]).decode


class World:
    """The tools of a scene and what they did."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()

    def tools(self) -> list[w.Tool]:
        world = self

        @w.tool(side_effect_level="read_only")
        async def read(n: int) -> str:
            return f"read {n}"

        @w.tool(keyed=True)
        async def keyed(ctx: w.ToolContext[None], n: int) -> str:
            world.effects[f"key {ctx.call_id}"] = 1  # whoever receives it knows the key
            return f"keyed {n}"

        @w.tool
        async def plain(n: int) -> str:
            world.effects[f"plain {n}"] += 1
            return f"plain {n}"

        host = w.Tool("host", "The host runs it.", {"n": {"type": "integer"}})
        return [read, keyed, plain, host]


class Memory(msgspec.Struct, frozen=True):
    turns: int = 0


class Chatty(w.Policy[Memory]):
    """Speaks at every moment, remembers, and refuses the first end."""

    memory = Memory

    async def before_turn(self, run: w.Run) -> None:
        if run.iteration == 1:
            run.say("a reminder", "hint", ttl=2)

    async def after_tool(self, run: w.Run, call: w.ToolCall, result: w.ToolResult) -> w.ToolResult:
        run.note("saw", call.id)
        return msgspec.structs.replace(result, content=f"{result.text}!")

    async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
        run.remember(self, Memory(run.recall(self).turns + 1))

    async def before_finish(self, run: w.Run, turn: w.Turn, finish: w.Finish) -> Any:
        if "surely" not in turn.text:
            run.say("surely?", "check")
            return w.KeepGoing("check")
        return None


def turns(*replies: Any) -> Callable[[w.Request], Any]:
    """A model that answers by how many turns the conversation has seen."""

    def reply(request: w.Request) -> Any:
        return replies[sum(message.role == "assistant" for message in request.messages)]

    return reply


SCENES: dict[str, tuple[Any, dict[str, Any]]] = {
    "serial": (
        turns(
            [call("plain", n=1), call("read", n=2), call("keyed", n=3)], call("plain", n=4), "end"
        ),
        {"max_concurrent_tools": 1},
    ),
    "parallel": (
        turns([call("plain", n=1), call("keyed", n=2), call("plain", n=3)], "end"),
        {"max_concurrent_tools": 4},
    ),
    "policies": (
        turns([call("plain", n=1), call("read", n=2)], "hm", "surely the end"),
        {"policies": [Chatty()]},
    ),
    "errors": (
        turns([call("nowhere"), call("plain", n="x"), call("plain", n=1)], "end"),
        {},
    ),
    "text": (
        turns(
            '<tool_call>{"name": "plain", "arguments": {"n": 1}}</tool_call>'
            "<tool_call>{oops</tool_call>",
            "end",
        ),
        {"tool_format": "text"},
    ),
    "nudged": (
        turns("hm", "hm", "##DONE##"),
        {"loop_until_done": True, "done_sentinel": "##DONE##"},
    ),
    "parked": (turns([call("plain", n=1), call("host", n=2), call("keyed", n=3)], "end"), {}),
    "budget": (turns(call("plain", n=1), call("plain", n=2)), {"max_turns": 2}),
}


def agent(scene: str, world: World) -> tuple[w.Agent[Any, Any], Any]:
    reply, options = SCENES[scene]
    model = scripted(then=reply)
    return w.Agent(model, tools=world.tools(), **options), model


async def to_the_end(scene: str, world: World, out: w.AgentResult[Any]) -> w.AgentResult[Any]:
    """Answer what a parked run waits for."""
    for _ in range(3):
        if out.status != "suspended":
            break
        results = {call.id: f"host {call.arguments['n']}" for call in out.pending}
        out = await agent(scene, world)[0].resume("s", results=results)
    return out


def shape(messages: Sequence[w.Message]) -> list[Any]:
    """The conversation without the ids that each run makes up."""
    said: list[Any] = []
    for message in messages:
        for block in message.content:
            match block:
                case w.ToolResult():
                    said.append((message.role, block.name, block.outcome, block.text))
                case w.ToolCall():
                    said.append((message.role, block.name, block.arguments))
                case _:
                    said.append((message.role, getattr(block, "text", "")))
    return said


async def finished(scene: str) -> tuple[list[list[JournalEntry]], w.AgentResult[Any], World]:
    world = World()
    async with w.Runtime(store="memory:", environ={}) as runtime:
        out = await to_the_end(scene, world, await agent(scene, world)[0].run("go", session_id="s"))
        rows = [_decode(row.payload) for row in await runtime.store.rows("s")]
    assert isinstance(rows[-1][-1], RunEnded)
    return rows, out, world


def interrupted(rows: Sequence[Sequence[JournalEntry]]) -> set[str]:
    """The plain calls that had begun and were not over: nobody can know what became of them."""
    begun: set[str] = set()
    for entry in (entry for row in rows for entry in row):
        if isinstance(entry, ToolIntended) and entry.effect == "plain":
            begun.add(entry.call_id)
        elif isinstance(entry, ToolResulted):
            begun.discard(entry.call_id)
    return begun


def asked_before(rows: Sequence[Sequence[JournalEntry]]) -> int:
    """How often the model was asked for a turn."""
    return sum(type(entry) is IterationStart for row in rows for entry in row)


@pytest.mark.parametrize("scene", SCENES)
async def test_a_run_goes_on_from_every_row(scene: str):
    rows, whole, _ = await finished(scene)
    places = 0
    for cut in range(1, len(rows)):
        kept = rows[:cut]
        if not any(type(entry).__name__ == "RunStarted" for row in kept for entry in row):
            continue
        world = World()
        async with w.Runtime(store="memory:", environ={}) as runtime:
            journal = await runtime.store.open("s")
            for row in kept:
                for entry in row:
                    if not isinstance(entry, SessionOpened):
                        journal.append(entry)
                journal.flush()
            await journal.close()
            again, model = agent(scene, world)
            out = await to_the_end(scene, world, await again.resume("s"))
            entries = await runtime.store.read("s")
            await runtime.store.verify("s")
        lost = interrupted(kept)
        where = f"{scene}, cut after row {cut} of {len(rows)}"
        assert out.status == whole.status, where
        assert messages_of(entries) == list(out.all_messages), where
        for request in model.requests:
            assert not audit(request.messages, tail=request.tail), where
        if scene == "budget" and type(kept[-1][-1]) is IterationStart:
            # the reply that was waited for counts as a turn: two may be asked for, and were
            assert len(model.requests) + asked_before(kept) == 2, where
        elif not lost:
            assert shape(out.all_messages) == shape(whole.all_messages), where
            assert out.usage == whole.usage, where
        else:
            unknown = [
                b
                for m in out.all_messages
                for b in m.content
                if isinstance(b, w.ToolResult) and b.outcome == "interrupted"
            ]
            assert {block.id for block in unknown} == lost, where
        done = {n for row in kept for e in row if isinstance(e, ToolResulted) for n in [e.call_id]}
        assert not any(world.effects[f"key {call_id}"] for call_id in done), "done is done"
        assert all(count == 1 for count in world.effects.values()), f"{where}: {world.effects}"
        places += 1
    assert places >= 3


@pytest.mark.parametrize("scene", SCENES)
async def test_every_request_can_be_rebuilt(scene: str):
    rows, _, _ = await finished(scene)
    entries = [entry for row in rows for entry in row]
    rebuilt = requests_of(entries)
    assert len(rebuilt) == sum(isinstance(entry, Replied) for entry in entries)
    assert all(request.messages[0].text == "go" for request in rebuilt)
