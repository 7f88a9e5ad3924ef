"""Where two ways of shaping what the model sees meet in one run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import add, kept, written
from windlass import seams
from windlass.engine.environment import current_store
from windlass.events import Compacted, Decorated, IterationEnd, JournalEntry, SkillNarrowed
from windlass.messages import Message, Text
from windlass.testing import call, scripted


def tool(name: str) -> w.Tool:
    async def handler(args: dict[str, Any]) -> str:
        return f"{name} worked"

    words = f"Does what {name} does, at some length, so that leaving it out is worth a line."
    return w.Tool(name, words, {}, handler, side_effect_level="read_only")


def offered(model: Any) -> list[list[str]]:
    return [[spec.name for spec in request.tools] for request in model.requests]


def adds(times: int) -> list[Any]:
    return [call("add", a=1, b=n) for n in range(times)]


# --------------------------------------------------------------------------- callback and decorator


@pytest.mark.parametrize("stamps", [False, True])
async def test_what_a_callback_makes_up_is_decorated_once_even_after_a_crash(
    stamps: bool, monkeypatch: pytest.MonkeyPatch
):
    time = [1_700_000_000.0]
    monkeypatch.setattr(seams, "now", lambda: time[0])
    asked: list[str] = []

    def decorator(message: Message, context: Any) -> Message:
        asked.append(message.text)
        time[0] += 60
        blocks = [
            Text(f"{context.timestamp} {b.text}") if type(b) is Text else b for b in message.content
        ]
        return Message(message.role, tuple(blocks), message.kind)

    options: dict[str, Any] = {
        "context_callback": lambda ctx: [{"role": "user", "content": "Be kind."}, *ctx.messages],
        "message_decorator": decorator,
        "timestamp_messages": stamps,
    }
    model = scripted(*adds(3), "done")
    out = await w.Agent(model, tools=[add], **options).run("go")
    first = {request.messages[0] for request in model.requests}
    assert len(first) == 1 and asked.count("Be kind.") == 1
    await kept(out, model)
    ends = [at for at, entry in enumerate(out.entries) if type(entry) is IterationEnd]
    entries = list(await current_store().read(out.session_id))
    begin = len(entries) - len(out.entries)
    await written(current_store(), "cut", entries[: begin + ends[1] + 1])
    again = scripted(*adds(1), "done")
    asked.clear()
    time[0] += 86_400
    rest = await w.Agent(again, tools=[add], **options).resume("cut")
    assert rest.status == "done" and "Be kind." not in asked
    assert {request.messages[0] for request in again.requests} == first


async def test_a_decorator_that_came_later_is_asked_about_what_was_made_up_before():
    callback = {"context_callback": lambda ctx: [{"role": "user", "content": "Hi."}, *ctx.messages]}
    model = scripted("one", "two")
    await w.Agent(model, timestamp_messages=True, **callback).run("go", session_id="s")
    shout = lambda m, c: Message(m.role, m.text.upper(), m.kind)  # noqa: E731
    out = await w.Agent(model, message_decorator=shout, **callback).run("on", session_id="s")
    assert model.requests[1].messages[0].text == "HI."
    told = [one for e in out.entries if type(e) is Decorated for one in e.made]
    assert [(one.asked, one.shown is None) for one in told] == [(True, False)]


# --------------------------------------------------------------------------- skills and narrowing


async def test_a_tool_that_a_skill_brings_late_is_new_and_stays(tmp_path: Any):
    folder = tmp_path / "guide"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: guide\ndescription: guide\n---\nShort.")
    (folder / "words.md").write_text("brook")
    model = scripted(*adds(14), "done")
    steer = lambda turn: "Write the guide." if turn.iteration == 6 else None  # noqa: E731
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add, tool("look")],
        skills=str(tmp_path),
        skill_match={"sticky": False},
        tool_surface_narrowing={"window_turns": 5},
        post_turn_callback=steer,
    )
    seen = ["read_skill_file" in names for names in offered(model)]
    assert seen.index(True) == 7 and seen[7:12] == [True] * 5 and not any(seen[12:])
    assert all(record.outcome == "ok" for record in out.tool_calls)
    await kept(out, model)


async def test_tools_that_a_skill_gives_back_leave_when_they_are_due_wherever_a_run_is_taken_up():
    ship = w.skill_define("ship", description="ship", allowed_tools=["add", "mend"])
    says = {0: "Now ship.", 6: "Now rest."}
    options: dict[str, Any] = {
        "tools": [add, tool("mend"), tool("look"), tool("grep")],
        "skills": ship,
        "skill_match": {"sticky": False},
        "tool_surface_narrowing": {"window_turns": 5},
        "post_turn_callback": lambda turn: says.get(turn.iteration),
    }
    script = [*adds(4), call("mend"), *adds(6), "done"]
    model = scripted(*script)
    out = await w.Agent(model, **options).run("go")
    assert any(type(entry) is SkillNarrowed for entry in out.entries)
    entries = list(await current_store().read(out.session_id))
    begin = len(entries) - len(out.entries)
    for at, entry in enumerate(out.entries):
        if type(entry) is IterationEnd and entry.verdict == "keep_going":
            turns = entry.number
            await written(current_store(), f"cut-{at}", entries[: begin + at + 1])
            again = scripted(*script[turns:])
            await w.Agent(again, **options).resume(f"cut-{at}")
            assert offered(again) == offered(model)[turns:], f"after turn {turns}"


# --------------------------------------------------------------------------- compaction and decorator


async def test_what_stays_pinned_through_a_cut_keeps_its_decoration_after_a_crash():
    def decorator(message: Message, context: Any) -> Message:
        blocks = [
            Text(f"#{context.index} {b.text}") if type(b) is Text else b for b in message.content
        ]
        return Message(message.role, tuple(blocks), message.kind)

    async def handler(args: dict[str, Any]) -> str:
        return "lorem ipsum " * 60

    options: dict[str, Any] = {
        "tools": [w.Tool("page", "Read.", {}, handler, side_effect_level="none")],
        "message_decorator": decorator,
        "compact_strategy": "summarize_all",
        "compact_threshold": 900,
    }
    pages = [call("page") for _ in range(9)]
    model = scripted(*pages[:3], "one", *pages[3:], then="notes, or two")
    agent = w.Agent(model, **options)
    await agent.run("First of all.", session_id="s")
    out = await agent.run("Secondly.", session_id="s")
    assert any(type(entry) is Compacted for entry in out.entries)
    last = [message.text for message in model.requests[-1].messages]
    assert last[:2] == ["#0 First of all.", "#8 Secondly."]
    await kept(out, model)
    stored = msgspec.json.encode(await current_store().read("s"))  # as a disk would have it
    entries = msgspec.json.decode(stored, type=list[JournalEntry])
    end = max(
        at for at, e in enumerate(entries) if type(e) is IterationEnd and e.verdict == "keep_going"
    )
    await written(current_store(), "cut", entries[: end + 1])
    again = scripted(then="notes, or two")
    await w.Agent(again, **options).resume("cut")
    assert [message.text for message in again.requests[-1].messages][:2] == last[:2]


@pytest.mark.parametrize(
    "options",
    [
        {"context_callback": lambda ctx: ctx.messages},
        {"context_filter": lambda ctx: {"messages": ctx.visible_messages}},
        {"transcript_projection": {"policy": "custom", "project": lambda messages, ctx: messages}},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_who_lets_everything_stand_is_not_blamed_for_what_stands_there(
    options: dict[str, Any],
):
    model = scripted("ok")
    out = await w.agent_loop("", model=model, **options)
    assert out.status == "done" and [m.text for m in model.requests[0].messages] == [""]
