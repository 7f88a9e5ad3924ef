"""A run of sixty turns with all of context at work, for whoever wants to cut or kill it.

The model, its writers, the functions and the clock are pure functions of what they are shown, so that
two processes do the same. The errand reads more pages than the view holds, recalls what has left it,
fails now and then, is told to do something else twice (other skills join), leaves tools unused until
they are hidden, and calls one of them again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import windlass as w
from windlass import seams
from windlass.agents.agent import Agent  # loaded once, in the process that all others fork from
from windlass.errors import NoSuchSession
from windlass.events import (
    AgentScratchpad,
    Compacted,
    Decorated,
    JournalEntry,
    Projected,
    Remembered,
    Replied,
    RunStarted,
    SkillMatched,
)
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text
from windlass.models.history import audit
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.store.view import messages_of
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen

assert sqlite_store.SqliteStore  # loaded once, as well
SESSION, TURNS = "s", 60
WIRE = AnthropicMessages("claude-test", api_key="not-a-key")
BEGAN = 1_700_000_000.0
NUDGE, TASK = "Not there yet, go on.", "Read the pages of the orchard. Never touch the pears."
ORDERS = {14: "Now deploy the release.", 34: "Now write the guide.", 50: "Now look back."}
FOLDER = Path(__file__).parent / "skill"

Log = Callable[[str, str], None]


def bytes_of(request: w.Request) -> bytes:
    """Encode the request as it would be sent."""
    return b"".join(WIRE.encode(request))


def digest(value: bytes | str) -> str:
    """Compute a short digest."""
    return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()[:16]


# --------------------------------------------------------------------------- the clock


class Clock:
    """Time passes with the turns: a minute each, wherever the run is taken up."""

    def __init__(self, entries: Sequence[JournalEntry] = ()) -> None:
        mine = [e.message for e in entries if type(e) is Replied and e.purpose is None]
        words = bool(mine) and not mine[-1].tool_calls  # a turn without calls
        self.now = BEGAN + 60 * (last_turn(mine) + words)

    def __call__(self) -> float:
        return self.now

    def turn(self, number: int) -> None:
        self.now = max(self.now, BEGAN + 60 * number)


def last_turn(messages: Sequence[Message]) -> int:
    """Return the turn of the last call that the model can see."""
    ids = [call.id for message in messages for call in message.tool_calls]
    return max([int(one.split("-")[1]) for one in ids if one.startswith("c-")], default=0)


# --------------------------------------------------------------------------- the model


def answer(request: w.Request, until: int = TURNS) -> tuple[str | list[Any], int | None]:
    """Return the model's answer to a request, and the turn, if it is one."""
    system = request.system or ""
    if system.startswith("You keep the pad."):
        return pad_of(request.messages[-1].text), None
    if not request.tools:
        return (
            f"log book of {len(request.messages[-1].text) // 1000} kB; the pears are left alone",
            None,
        )
    turn = last_turn(request.messages) + 1
    offered = {tool.name for tool in request.tools}
    last = request.messages[-1].text
    if turn > until:
        return "all of it is read ##DONE##", turn
    if turn in (20, 41) and NUDGE not in last:
        return "this is half of it", turn
    return calls_of(turn, offered), turn


def calls_of(turn: int, offered: set[str]) -> list[Any]:
    def asked(name: str, at: int = 0, **arguments: Any) -> w.ToolCall:
        return w.ToolCall(f"c-{turn}-{at}", name, arguments)

    if turn % 10 == 7 and "recall" in offered:
        how: dict[str, Any] = (
            {"id": f"c-{turn - 6}-0"} if turn % 20 == 7 else {"query": f"page {turn - 6}"}
        )
        return [asked("recall", **how)]
    if turn % 10 == 8 and "read_skill_file" in offered:
        return [asked("read_skill_file", skill="guide", path="words.md")]
    if turn == 31:
        return [asked("atlas", place="the old wall")]
    if turn % 10 == 2:
        return [Text("I should mind this."), asked("mind", turn=turn)]
    if turn % 10 == 4:
        return [asked("page", number=-turn)]
    if turn % 10 == 5:
        return [asked("page", 0, number=turn), asked("page", 1, number=turn + 100)]
    return [asked("page", number=turn)]


def pad_of(question: str) -> str:
    """Build a pad with citations; at times it is no pad, or cites an unknown source."""
    seen = [n for n in range(1, TURNS + 1) if f'"c-{n}-0"' in question]
    if seen and max(seen) % 20 == 11 and "could not be used" not in question:
        return "let me think about it"
    facts = [{"text": f"page {n} was read", "source_ref": f"c-{n}-0"} for n in seen[-2:]]
    if seen and max(seen) % 20 == 15:
        facts.append({"text": "it is Tuesday", "source_ref": "the calendar"})
    goals = [{"text": "read the orchard", "source_ref": "user:initial"}]
    return json.dumps({"goals": goals, "open_items": [], "facts": facts, "refs": []})


class Reader(w.Model):
    """A model that answers by the request alone, and reports every request."""

    provider, name = "reader", "reader"

    def __init__(self, clock: Clock, sent: Callable[[bytes], None], until: int = TURNS) -> None:
        self.clock, self.sent, self.until = clock, sent, until

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.sent(bytes_of(request))
        said, turn = answer(request, self.until)
        if turn is not None:
            self.clock.turn(turn)
        blocks = (Text(said),) if isinstance(said, str) else tuple(said)
        calls = any(type(block) is w.ToolCall for block in blocks)
        warm = turn is not None and 8 < turn < 45
        usage = w.Usage(100, 10, cache_read_tokens=80 if warm else 0)
        return w.Response(Message("assistant", blocks), usage, "tool_use" if calls else "end_turn")


# --------------------------------------------------------------------------- tools


@w.tool(keyed=True)  # so that the disk is waited for in every turn
async def page(number: int) -> str:
    """Read a page of the orchard's book."""
    if number < 0:
        raise ValueError(f"there is no page {number}")
    return f"page {number} says: " + f"apples and plums {number} " * (20 + 40 * (number % 3))


@w.tool(side_effect_level="none")
async def mind(ctx: w.ToolContext[None], turn: int) -> str:
    """Be reminded of something in the next turns."""
    ctx.remind(w.system_reminder(f"Turn {turn} was a good one.", ttl=3))
    return "so be it"


@w.tool(side_effect_level="none")
async def atlas(place: str, scale: int = 1, layer: str = "paths") -> str:
    """Look a place up in the atlas of the orchard, at a scale, with one of its layers: paths, water,
    walls, trees by kind, trees by age, soil, slope, or who owned what in which year."""
    return f"{place} stands by the brook"


@w.tool(side_effect_level="none")
async def almanac(day: str, kind: str = "weather") -> str:
    """What the almanac says of a day: its weather, its moon, its saints, its frosts, and what ought
    to be sown, cut, picked, pressed or stored on it, as far as anybody has written it down."""
    return f"{day}: fair"


# --------------------------------------------------------------------------- all of context


def options(log: Log) -> dict[str, Any]:
    """Build all options that decide what the model sees; `log` gets who is asked what."""

    def begin(start: w.SessionStart) -> list[Any]:
        log("on_session_start", start.session_id)
        return [w.system_reminder("It is autumn.", ttl=5), {"text": "Mind the wasps."}]

    def matched(query: w.SkillQuery) -> dict[str, float]:
        log("matcher", f"{query.prompt[:40]} {','.join(query.active)}")
        words = {"deploy": "ship", "guide": "guide", "Read": "review"}
        return {skill: 1.0 for word, skill in words.items() if word in query.prompt}

    def callback(ctx: w.ContextInfo) -> Any:
        log("context_callback", str(ctx.iteration))
        if ctx.iteration % 7 == 3:
            made = {
                "role": "user",
                "content": f"Be kind, today of all days ({ctx.iteration // 20}).",
            }
            rest = [m for at, m in enumerate(ctx.messages) if at != 2 or len(ctx.messages) < 8]
            return {"messages": [made, *rest], "system": f"{ctx.system}\n\nStay calm."}
        return {"system": f"{ctx.system}\n\nHurry."} if ctx.iteration % 7 == 5 else None

    def decorated(message: Message, context: w.DecorationContext) -> Message:
        log("message_decorator", f"{context.index} {digest(msgspec.json.encode(message))}")
        head = f"#{context.index} in {context.iteration} at {context.timestamp[-9:]}: "
        blocks = [Text(head + b.text) if type(b) is Text else b for b in message.content]
        return Message(message.role, tuple(blocks), message.kind)

    def hook(event: Any) -> None:
        log("hook", f"{type(event).__name__} {event.name} {event.iteration}")

    def contract(values: dict[str, Any]) -> str:
        log("loop_contract", values["id"])
        return f"When all is read, say {values['sentinel']}."

    def after(turn: Any) -> str | None:
        return ORDERS.get(turn.iteration)

    ship = w.skill_define(
        "ship",
        description="deploy a release",
        paths=["infra/**"],
        prompt="One command at a time.",
        allowed_tools=["page", "mind", "atlas"],
        on_activate=hook,
        on_deactivate=hook,
    )
    review = w.skill_define("review", prompt="Read every line.", on_deactivate=hook)
    return {
        "tools": [page, mind, atlas, almanac],
        "system": "You tend an orchard.",
        "loop_until_done": True,
        "done_sentinel": "##DONE##",
        "max_turns": 100,
        "post_turn_callback": after,
        "compaction": {"strategy": "hybrid", "policy": {"preserve": ["what was said of pears"]}},
        "compact_threshold": 1_800,
        "compact_keep_last": 6,
        "transcript_projection": {"policy": "reachability_gc", "keep_last": 4, "min_chars": 200},
        "context_callback": callback,
        "message_decorator": decorated,
        "timestamp_messages": True,
        "scratchpad": {"reorganize_every": 4, "max_recent_messages": 6},
        "on_session_start": begin,
        "skills": w.skill_registry(str(FOLDER), ship, review),
        "skill_match": {"strategy": "host", "matcher": matched, "sticky": False},
        "working_files": ["infra/main.tf"],
        "tool_surface_narrowing": {"window_turns": 5},
        "prompts": {
            "agent.loop_contract": contract,
            "agent.nudge": {"text": NUDGE},
            "agent.compaction_system": {"text": "You write the log book."},
            "agent.scratchpad_system": {"text": "You keep the pad."},
            "agent.hidden_tools": lambda values: "Put away: {tools}.",
        },
    }


def _compressed(messages: list[Message], tokens: int) -> list[Message]:
    return messages if len(messages) < 14 else [messages[0], *messages[-8:]]


def _projected(messages: list[Message], context: Any) -> list[Message]:
    if len(messages) < 16:
        return messages
    return [one for at, one in enumerate(messages) if at < 1 or at > len(messages) - 9]


_OTHERWISE = {"compaction": None, "compact_threshold": None, "compact_keep_last": None}
#: What else there is of context, each in place of what the errand has; None: not given.
VARIANTS: dict[str, dict[str, Any]] = {
    "all": {},
    "summarize": {**_OTHERWISE, "context_strategy": {"type": "summarize", "max_tokens": 1_500}},
    "window": {**_OTHERWISE, "context_strategy": {"type": "sliding-window", "max_turns": 4}},
    "compress": {**_OTHERWISE, "context_strategy": {"type": "custom", "compress": _compressed}},
    "custom": {
        "compaction": None,
        "compact_callback": lambda gone, due, policy: f"{len(gone)} gone, {len(due)} due",
        "transcript_projection": {"policy": "custom", "project": _projected},
    },
    "squash": {
        "compaction": "summarize_all",
        "compact_keep_last": 0,
        "transcript_projection": {"policy": "squash_failed_calls", "keep_last": 2},
        "skill_match": {"sticky": True},
    },
    "prefix": {
        "compaction": "truncate",
        "transcript_projection": {"policy": "summary_prefix", "keep_last": 4, "min_tokens": 200},
        "timestamp_messages": False,
    },
    "repair": {
        "compaction": "summarize_middle",
        "transcript_projection": "clean_tool_repair",
        "context_callback": None,
        "tool_surface_narrowing": {"window_turns": 3, "mode": "aggressive"},
    },
    "plain": {
        "message_decorator": None,
        "timestamp_messages": False,
        "context_callback": None,
        "scratchpad": {"recite": False, "reorganize_every": 3},
    },
}


# --------------------------------------------------------------------------- asked twice


def on_record(entries: Sequence[JournalEntry]) -> set[tuple[str, str]]:
    """Return who has answered what on this record, as `log` would report it."""
    known: set[tuple[str, str]] = set()
    turns = sum(type(e) is Replied and e.purpose is None for e in entries)
    known |= {("context_callback", str(number)) for number in range(turns)}
    memories = {e.policy for e in entries if type(e) is Remembered}
    if "on_session_start" in memories:
        known.add(("on_session_start", SESSION))
    if "prompts" in memories:
        known.add(("loop_contract", "agent.loop_contract"))
    for entry in entries:
        match entry:
            case w.SkillActivated() | w.SkillDeactivated():
                known.add(("hook", f"{type(entry).__name__} {entry.name} {entry.iteration}"))
            case _:
                pass
    return known


def matched_turns(entries: Sequence[JournalEntry]) -> int:
    """Count the turns that have had their skills matched."""
    return sum(type(entry) is SkillMatched for entry in entries)


def decorated_now(entries: Sequence[JournalEntry]) -> bool:
    """Check whether the decorations of the next request are recorded."""
    for entry in reversed(entries):
        if type(entry) is Decorated:
            return True
        if type(entry) is Replied:
            return False
    return False


def agent_of(
    clock: Clock,
    sent: Callable[[bytes], None],
    log: Log,
    variant: str = "all",
    until: int = TURNS,
) -> Agent[Any, Any]:
    """Build the agent of the errand."""
    given = {**options(log), **VARIANTS[variant]}
    return Agent(
        Reader(clock, sent, until),
        **{name: value for name, value in given.items() if value is not None},
    )


# --------------------------------------------------------------------------- a scene to be killed


async def scenario(scene: Scene) -> str:
    """Run the errand to its end, from wherever an earlier process left it."""
    sent, asked = _logs(scene, scene.attempt)
    async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}", environ={}) as runtime:
        entries: Sequence[JournalEntry] = ()
        with contextlib.suppress(NoSuchSession):
            entries = await runtime.store.read(SESSION)
        (scene.folder / f"begin-{scene.attempt}").write_text(str(len(entries)))
        seams.now = clock = Clock(entries)
        agent = agent_of(
            clock, lambda one: sent.write(digest(one)), lambda *one: asked.write(" ".join(one))
        )
        if any(type(entry) is RunStarted for entry in entries):
            out = await agent.resume(SESSION)
        else:
            out = await agent.run(TASK, session_id=SESSION)
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


def _logs(scene: Scene, attempt: int) -> tuple[EffectLog, EffectLog]:
    """Return the logs of a process: requests sent, and functions called."""
    sent, asked = scene.folder / f"sent-{attempt}.jsonl", scene.folder / f"asked-{attempt}.jsonl"
    return EffectLog(sent), EffectLog(asked)


async def check(scene: Scene) -> Seen:
    """Check for the same requests as without a kill, and no repeated question."""
    store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
    await store.verify(SESSION)
    entries: list[JournalEntry] = list(await store.read(SESSION))
    await store.aclose()
    problems = audit([*messages_of(entries), Message("user", "next")])
    rebuilt = [digest(bytes_of(request)) for request in requests_of(entries)]
    for attempt in (0, 1):
        begin = scene.folder / f"begin-{attempt}"
        if begin.exists():
            problems += _twice(scene, attempt, entries[: int(begin.read_text())], rebuilt)
    hooks = sum([_logs(scene, attempt)[1].counts() for attempt in (0, 1)], Counter[str]())
    problems += [f"{n} times: {what}" for what, n in hooks.items() if what[:4] == "hook" and n > 1]
    kinds = (AgentScratchpad, Compacted, Projected, SkillMatched, w.SkillNarrowed, w.SkillActivated)
    told = [type(entry).__name__ for entry in entries if type(entry) in kinds]
    return Seen(state=[told, rebuilt], problems=tuple(problems))


def _twice(
    scene: Scene, attempt: int, before: Sequence[JournalEntry], rebuilt: list[str]
) -> list[str]:
    """List repeated requests and questions of a process."""
    sent, asked = _logs(scene, attempt)
    answered = sum(type(entry) is Replied for entry in before)
    problems: list[str] = []
    if not set(sent.counts()) <= set(rebuilt[answered:]):
        problems.append("it sent what the journal does not rebuild, or what was answered")
    again = {" ".join(one) for one in on_record(before)} & set(asked.counts())
    return [*problems, *[f"asked again: {one}" for one in again]]


#: As `windlass replay --agent` finds it.
AGENT = agent_of(Clock(), lambda sent: None, lambda *asked: None)
