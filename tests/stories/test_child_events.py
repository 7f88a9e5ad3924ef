"""A sub-agent in its parent's stream: its events with their path, and its error in words."""

from __future__ import annotations

from typing import Any

import windlass as w
from windlass.events import ChildEvent, Replied, RunEnded, TextDelta, ToolResulted
from windlass.testing import call, scripted


@w.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_family() -> w.Agent[Any, str]:
    grandchild = w.Agent(scripted("Six.", stream=True), name="counter")
    child = w.Agent(
        scripted(call("add", a=1, b=2), call("counter", task="count"), "Three.", stream=True),
        name="clerk",
        tools=[add, grandchild.as_tool()],
    )
    return w.Agent(scripted(call("clerk", task="add"), "It is 3."), tools=[child.as_tool()])


async def test_events_of_children_reach_the_parents_stream_with_their_path():
    events: list[Any] = []
    async with make_family().stream("go", session_id="p") as run:
        async for event in run:
            events.append(event)
        assert (await run.result()).output == "It is 3."
    children = [event for event in events if isinstance(event, ChildEvent)]
    texts = {e.path: e.event.text for e in children if isinstance(e.event, TextDelta)}
    assert texts == {("clerk",): "Three.", ("clerk", "counter"): "Six."}
    results = [e.event for e in children if isinstance(e.event, ToolResulted)]
    assert [result.tool for result in results] == ["add", "counter"]
    ended = {e.session_id for e in children if isinstance(e.event, RunEnded)}
    assert ended == {"p.call_1", "p.call_1.call_2"}
    assert {e.call_id for e in children} == {"call_1"}
    assert len([event for event in events if isinstance(event, RunEnded)]) == 1
    assert all(not isinstance(e.event, ChildEvent) for e in children)


async def test_text_of_a_stream_is_the_agents_own():
    async with make_family().stream("go") as run:
        assert [piece async for piece in run.text()] == ["It is 3."]


async def test_on_event_sees_children_and_runs_without_observers_show_nothing():
    seen: list[Any] = []
    await make_family().run("go", on_event=seen.append)
    assert any(isinstance(event, ChildEvent) for event in seen)
    out = await make_family().run("go")
    assert out.output == "It is 3."
    assert not any(isinstance(entry, ChildEvent) for entry in out.entries)


async def test_secrets_of_a_child_are_not_shown_to_its_parent():
    key = "sk-secret-1234567890"
    child = w.Agent(scripted(f"The key is {key}."), name="clerk")
    parent = w.Agent(scripted(call("clerk", task="x"), "ok"), tools=[child.as_tool()])
    seen: list[Any] = []
    async with w.Runtime(store="memory:", secrets=(key,)):
        await parent.run("go", on_event=seen.append)
    said = [e for e in seen if isinstance(e, ChildEvent) and isinstance(e.event, Replied)]
    assert said
    assert key not in str(seen)


async def test_error_of_a_child_reaches_its_parent_in_words():
    child = w.Agent(scripted(w.QuotaExceeded("the key was revoked")), name="clerk")
    model = scripted(call("clerk", task="x"), "I could not.")
    await w.Agent(model, tools=[child.as_tool()]).run("go")
    told = str(tuple(model.requests[1].messages)[-1])
    assert "ended as provider_error" in told
    assert "the key was revoked" in told
