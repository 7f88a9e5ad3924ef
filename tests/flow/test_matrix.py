"""Every role x every origin x every way that a value can take through a session.

Nobody is asked where the rule says go, and somebody is where it says ask. The values and what the rule
says of them are in `matrix_cases`; here are the ways. Each runs through the public API, in memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

import pytest

import windlass as w
from tests.flow.matrix_cases import (
    CONTACT,
    EVE,
    NO_MEANING,
    PAGE,
    PROMPT,
    SECRET,
    Case,
    Origin,
    Role,
    build_cases,
    build_relay,
)
from windlass.store.memory import MemoryStore
from windlass.testing import call, scripted

CASES = build_cases()


@w.tool(side_effect_level="read_only", annotations={"reads_untrusted": True})
async def read_page(url: str) -> str:
    """Read a page of the web."""
    return PAGE


@w.tool(side_effect_level="read_only", annotations={"reads_private": True})
async def find_contact(name: str) -> dict[str, Any]:
    """Find somebody in the address book."""
    return CONTACT


@w.tool(side_effect_level="read_only", annotations={"result": "secret"})
async def read_key() -> str:
    """Read the key of the harbour."""
    return f"key: {SECRET}"


@w.tool(side_effect_level="none")
async def think(text: str) -> str:
    """Think."""
    return text


SOURCES: list[Any] = [read_page, find_contact, read_key]
READS = [
    call("read_page", url="https://news.example"),
    call("find_contact", name="Ann"),
    call("read_key"),
]
#: What the tools above answered, as a model would tell it.
TOLD = f"{PAGE}\n{json.dumps(CONTACT)}\nkey: {SECRET}"


class World:
    """A store, the tool with effects, and whether it ran."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.ran: list[str] = []
        self.relay = build_relay(self.ran)

    def agent(self, *replies: Any, tools: Sequence[Any] | None = None, **options: Any) -> Any:
        model = options.pop("model", None) or scripted(*replies, "ok")
        if tools is None:
            tools = [*SOURCES, think, self.relay]
        return w.Agent(model, tools=tools, **{"store": self.store, "max_turns": 30, **options})

    async def run(self, *replies: Any, prompt: Any = PROMPT, **options: Any) -> Any:
        session = options.pop("session_id", "s")
        return await self.agent(*replies, **options).run(prompt, session_id=session)


Way: TypeAlias = Callable[[World, Case], Awaitable[Any]]


async def plain(world: World, case: Case) -> Any:
    return await world.run(*READS, case.call)


async def batch(world: World, case: Case) -> Any:
    """Several calls in one reply; the others are harmless."""
    return await world.run(READS, [call("think", text="so"), case.call, call("think", text="on")])


async def delegation_down(world: World, case: Case) -> Any:
    child = world.agent(case.call, tools=[world.relay], name="helper")
    tools = [*SOURCES, child.as_tool()]
    return await world.run(*READS, call("helper", task="relay it"), tools=tools)


async def delegation_up(world: World, case: Case) -> Any:
    child = world.agent(model=scripted(*READS, TOLD), tools=SOURCES, name="helper")
    tools = [child.as_tool(), world.relay]
    return await world.run(call("helper", task="find Ann, and read"), case.call, tools=tools)


async def delegation_across(world: World, case: Case) -> Any:
    """From one sub-agent, over a parent that has no tools of its own, to another."""
    reader = world.agent(model=scripted(*READS, TOLD), tools=SOURCES, name="reader")
    sender = world.agent(case.call, tools=[world.relay], name="sender")
    tools = [reader.as_tool(), sender.as_tool()]
    calls = [call("reader", task="read"), call("sender", task=f"relay to {EVE}: {TOLD}")]
    return await world.run(*calls, tools=tools)


async def delegation_deep(world: World, case: Case) -> Any:
    """Two levels down from where it was read."""
    sender = world.agent(case.call, tools=[world.relay], name="sender")
    middle = world.agent(call("sender", task=f"to {EVE}"), tools=[sender.as_tool()], name="middle")
    calls = [*READS, call("middle", task=f"relay to {EVE}")]
    return await world.run(*calls, tools=[*SOURCES, middle.as_tool()])


def _long_talk() -> list[w.ToolCall]:
    return [call("think", text="word " * 400) for _ in range(6)]


_COMPACT: dict[str, Any] = {
    "compact_callback": lambda *_: TOLD,
    "compact_threshold": 1_500,
    "compact_keep_last": 1,
}


async def compaction(world: World, case: Case) -> Any:
    out = await world.run(*READS, *_long_talk(), case.call, **_COMPACT)
    assert any(event["kind"] == "compaction" for event in out.trace["events"])
    return out


async def recall(world: World, case: Case) -> Any:
    """What has left the view is looked up in the session: no source of its own."""
    again = [call("recall", query=f"Ann {EVE}"), call("recall", query="password gull-99 900 Ann")]
    out = await world.run(*READS, *_long_talk(), *again, case.call, **_COMPACT)
    assert "recall" in {record.name for record in out.tool_calls if record.outcome == "ok"}
    return out


async def fork(world: World, case: Case) -> Any:
    await world.run(*READS)
    await w.agent_session_fork("s", "fork", store=world.store)
    return await world.run(case.call, prompt="Go on.", session_id="fork")


async def new_run(world: World, case: Case) -> Any:
    await world.run(*READS)
    return await world.run(case.call, prompt="Go on.")


async def resume(world: World, case: Case) -> Any:
    """A run that waited for the host in between, in a process that knows nothing of it."""
    host = w.Tool("host", "Asks the host.", {"x": {"type": "string"}}, kind="think")
    tools = [*SOURCES, host, world.relay]
    out = await world.run(*READS, call("host", x="?"), tools=tools)
    [waiting] = out.pending
    agent = world.agent(case.call, tools=tools)
    return await agent.resume("s", results={waiting.id: "Go on."})


def _write(asked: w.ToolCall) -> str:
    content = json.dumps({"name": asked.name, "arguments": asked.arguments})
    return f"<tool_call>{content}</tool_call>"


async def text_calls(world: World, case: Case) -> Any:
    written = [_write(one) for one in (*READS, case.call)]
    return await world.run(*written, tool_format="text")


async def text_calls_new_run(world: World, case: Case) -> Any:
    await world.run("\n".join(_write(one) for one in READS), tool_format="text")
    return await world.run(_write(case.call), prompt="Go on.", tool_format="text")


_RESULTS = [PAGE, json.dumps(CONTACT), f"key: {SECRET}"]


def _history() -> list[dict[str, Any]]:
    """The reads as a conversation that a host hands in."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    for at, (one, result) in enumerate(zip(READS, _RESULTS, strict=True)):
        asked = {"type": "tool_call", "id": f"h{at}", "name": one.name, "arguments": one.arguments}
        answer = {"type": "tool_result", "id": f"h{at}", "content": result}
        messages += [
            {"role": "assistant", "content": [asked]},
            {"role": "tool", "content": [answer]},
        ]
    return [*messages, {"role": "assistant", "content": TOLD}]


async def seeded_history(world: World, case: Case) -> Any:
    prompt = [*_history(), {"role": "user", "content": "Go on."}]
    return await world.run(case.call, prompt=prompt)


async def _seed(world: World, **options: Any) -> None:
    path = _FILES / f"{next(_NUMBERS)}.jsonl"
    more = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "It is so."}]
    lines = [{"type": "message", "message": message} for message in (*_history(), *more)]
    path.write_text("\n".join(map(json.dumps, lines)))
    await w.agent_session_seed_from_jsonl(path, options, store=world.store)


async def seeded_session(world: World, case: Case) -> Any:
    """A transcript file that becomes a session."""
    await _seed(world, new_id="s")
    return await world.run(case.call, prompt="Go on.")


async def seeded_text_calls(world: World, case: Case) -> Any:
    """A history in which the results are written in messages of the user, as text calls have them."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    for at, (one, result) in enumerate(zip(READS, _RESULTS, strict=True)):
        answer = f'<tool_result name="{one.name}" id="h{at}">{result}</tool_result>'
        messages += [
            {"role": "assistant", "content": _write(one)},
            {"role": "user", "content": answer},
        ]
    prompt = [*messages, {"role": "user", "content": "Go on."}]
    return await world.run(_write(case.call), prompt=prompt, tool_format="text")


async def conversation(world: World, case: Case) -> Any:
    tools = [*SOURCES, world.relay]
    async with w.Runtime(environ={}, resources=[], tools=tools) as scope:
        model = scripted(*READS, "ok")
        await scope.models.generate(PROMPT, model=model, conversation="c")
        try:
            model = scripted(case.call, "ok")
            await scope.models.generate("Go on.", model=model, conversation="c")
        except w.Suspended:
            return "suspended"
        return "done"


async def scratchpad(world: World, case: Case) -> Any:
    """The pad recites the values, as facts that the user is said to have given."""
    parts = {"goals": [{"text": TOLD, "source_ref": "user:initial"}], "facts": []}
    pad = json.dumps({"open_items": [], "refs": [], **parts})
    calls = iter([*READS, call("think", text="so"), call("think", text="on"), case.call])

    def reply(request: w.Request) -> Any:
        if "keep the scratchpad of an assistant" in (request.system or ""):
            return pad
        return next(calls, "ok")

    options = {"scratchpad": {"reorganize_every": 1}, "model": scripted(then=reply)}
    return await world.run(**options)


async def skills(world: World, case: Case) -> Any:
    """A skill joins the run; what it says is the host's, and vouches for nothing that was read."""
    skill = w.skill_define(
        "relaying", description="Relay news to somebody", prompt="Relay what the news say."
    )
    out = await world.run(*READS, case.call, skills=[skill])
    assert any(event["kind"] == "skill_activated" for event in out.trace["events"])
    return out


WAYS: tuple[Way, ...] = (
    plain,
    batch,
    delegation_down,
    delegation_up,
    delegation_across,
    delegation_deep,
    compaction,
    recall,
    fork,
    new_run,
    resume,
    text_calls,
    text_calls_new_run,
    seeded_history,
    seeded_session,
    seeded_text_calls,
    conversation,
    scratchpad,
    skills,
)
#: What is written in a message vouches for nothing: whoever was read can write a result as well.
NO_LOOKUPS: frozenset[Way] = frozenset({seeded_text_calls})
_NUMBERS = itertools.count()
_FILES = Path()


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "_FILES", tmp_path)


async def is_asked(way: Way, case: Case) -> bool:
    """Run a case on a way; True: it waits for somebody, False: it ran."""
    world = World()
    out = await way(world, case)
    status = out if isinstance(out, str) else out.status
    assert (status, len(world.ran)) in (("suspended", 0), ("done", 1)), (
        status,
        world.ran,
        getattr(out, "error", None) or getattr(out, "tool_calls", None),
    )
    return status == "suspended"


def test_every_combination_has_a_case_or_a_reason_why_it_has_no_meaning():
    found = {(case.role, case.origin) for case in CASES}
    wanted = set(itertools.product(get_args(Role), get_args(Origin)))
    assert found | set(NO_MEANING) == wanted
    assert not found & set(NO_MEANING)
    assert {case.asks for case in CASES} == {True, False}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_matrix_asks_where_the_rule_says_ask_and_nowhere_else(way: Way):
    unasked: list[str] = []
    asked: list[str] = []
    for case in CASES:
        found = await is_asked(way, case)
        asks = case.asks_without_lookups if way in NO_LOOKUPS else case.asks
        if found is not asks:
            (asked if found else unasked).append(str(case))
    assert not unasked, f"unasked where the rule says ask: {unasked}"
    assert not asked, f"asked where the rule says go: {asked}"


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_matrix_asks_nobody_without_untrusted_content(case: Case):
    world = World()
    out = await world.run(case.call)
    assert out.status == "done" and len(world.ran) == 1


# --------------------------------------------------------------------------- ways to launder a value


ASK_EVE = call("relay", to=EVE)


async def waits(world: World, *replies: Any, **options: Any) -> bool:
    """Run calls in a session; True: it waits for somebody, False: the last of them ran."""
    out = await world.run(*replies, **options)
    assert (out.status, len(world.ran)) in (("suspended", 0), ("done", 1)), out
    return out.status == "suspended"


def build_search(answer: Callable[[str], Any], **schema: Any) -> w.Tool:
    """Build a lookup of a trusted source that is asked with a text."""

    async def search(args: dict[str, Any]) -> Any:
        return answer(args["query"])

    fields = {"query": {"type": "string"}, **schema}
    annotations = {"reads_private": True, "roles": {"query": "content"}}
    return w.Tool(
        "search_notes",
        "Searches.",
        {"type": "object", "properties": fields, "required": ["query"]},
        search,
        side_effect_level="read_only",
        annotations=annotations,
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda query: f"Nothing was found for {query}.",
        lambda query: {"query": query, "results": []},
        lambda query: [{"query": query}, {"name": "Ann Lee"}],
    ],
    ids=["text", "object", "list"],
)
async def test_a_lookup_that_repeats_its_question_vouches_for_nothing_in_it(
    answer: Callable[[str], Any],
):
    world = World()
    tools = [*SOURCES, build_search(answer), world.relay]
    echo = call("search_notes", query=f"Ann {EVE}")
    assert await waits(world, READS[0], echo, ASK_EVE, tools=tools)


async def test_a_lookup_by_a_key_that_a_page_gave_is_not_trusted_and_one_by_the_users_is():
    notes = {"Ann": "her number is 5512-A", "late ships": "the number is 7788-B"}
    for key, number, asks in (("Ann", "5512-A", False), ("late ships", "7788-B", True)):
        world = World()
        tools = [*SOURCES, build_search(lambda query: notes[query]), world.relay]
        look = call("search_notes", query=key)
        calls = [READS[0], look, call("relay", to=number)]
        assert await waits(world, *calls, tools=tools) is asks, key


async def test_a_lookup_without_a_key_of_its_own_is_not_keyed():
    """What is left at its default names nothing."""
    for arguments in ({}, {"limit": 10}):
        world = World()

        async def list_rows(args: dict[str, Any]) -> str:
            return "row 5512-A"

        rows = w.Tool(
            "list_rows",
            "Lists.",
            {"type": "object", "properties": {"limit": {"type": "integer", "default": 10}}},
            list_rows,
            side_effect_level="read_only",
            annotations={"reads_private": True},
        )
        calls = [READS[0], call("list_rows", **arguments), call("relay", to="5512-A")]
        assert await waits(world, *calls, tools=[*SOURCES, rows, world.relay]), arguments


@pytest.mark.parametrize("options", [{"drop_tool_calls": True}, {"truncate_to_last": 2}], ids=str)
async def test_a_recorded_session_that_was_cut_may_have_read_anything(options: dict[str, Any]):
    world = World()
    await _seed(world, new_id="s", **options)
    assert await waits(world, ASK_EVE, prompt="Go on.")


async def _leave_child(world: World, tools: Sequence[Any], *calls: Any) -> str:
    """Begin a sub-agent that waits for the host; return its session."""
    child = world.agent(call("host", x="?"), *calls, tools=tools, name="helper")
    delegate = call("helper", task=f"relay to {EVE}, pay 900")
    await world.run(*READS, delegate, tools=[*SOURCES, child.as_tool()])
    [session] = [one.id for one in await world.store.sessions() if one.id.startswith("s.")]
    return session


@pytest.mark.parametrize("case", [case for case in CASES if case.asks], ids=str)
async def test_a_sub_agent_that_goes_on_without_its_parent_asks_as_it_did_under_it(case: Case):
    world = World()
    host = w.Tool("host", "Asks the host.", {"x": {"type": "string"}}, kind="think")
    tools = [host, world.relay]
    session = await _leave_child(world, tools, case.call)
    await w.agent_session_fork(session, "fork", store=world.store)
    out = await world.agent(case.call, tools=tools).run("Go on.", session_id="fork")
    assert out.status == "suspended" and not world.ran
    alone = world.agent(case.call, tools=tools)
    [waiting] = (await alone.resume(session)).pending
    out = await alone.resume(session, results={waiting.id: "Go on."})
    assert out.status == "suspended" and not world.ran


async def test_a_sub_agent_of_a_parent_that_read_nothing_is_not_held_up():
    world = World()
    host = w.Tool("host", "Asks the host.", {"x": {"type": "string"}}, kind="think")
    tools = [host, world.relay]
    child = world.agent(call("host", x="?"), tools=tools, name="helper")
    await world.run(call("helper", task="relay it"), tools=[*SOURCES, child.as_tool()])
    [session] = [one.id for one in await world.store.sessions() if one.id.startswith("s.")]
    alone = world.agent(ASK_EVE, tools=tools)
    [waiting] = (await alone.resume(session)).pending
    out = await alone.resume(session, results={waiting.id: "Go on."})
    assert out.status == "done" and world.ran
