"""What the stories share: a few tools, and the promises every run must keep.

`kept(out, model)` is the last line of a story: it reads the journal and checks I1 to I8 on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import windlass as w
from windlass.engine.results import RunResult
from windlass.events import (
    InboxTaken,
    JournalEntry,
    Replied,
    ReplyFailed,
    RunEnded,
    RunStarted,
    SessionOpened,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.models.wrappers.text_tools import as_text
from windlass.store.base import Store
from windlass.store.view import messages_of
from windlass.testing import scripted
from windlass.usage import NO_USAGE


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@w.tool
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


@w.tool
async def broken() -> str:
    """Always fails."""
    raise ValueError("out of order")


async def one_call(tool: Any, asked: w.ToolCall, **options: Any) -> w.LoopResult:
    """Run one call and an answer, and check the invariants."""
    model = scripted(asked, "ok")
    out = await w.agent_loop("go", model=model, tools=[tool], **options)
    assert out.status == "done"
    await kept(out, model)
    return out


def results(out: RunResult) -> dict[str, tuple[str, str]]:
    """Return outcome and text of every call, by tool."""
    return {record.name: (record.outcome, record.result) for record in out.tool_calls}


def kinds(out: RunResult) -> list[str]:
    """Return the kinds of the run's entries, in order."""
    return [event["kind"] for event in out.trace["events"]]


def own_tools(request: w.Request) -> list[w.ToolSpec]:
    """Return the tools of a request without the one that every loop offers."""
    return [spec for spec in request.tools if spec.name != "agent_await_resumption"]


def said(request: w.Request) -> list[str]:
    """Return the texts of a request's messages, results included."""
    words: list[str] = []
    for message in (*request.messages, *request.tail):
        for block in message.content:
            if isinstance(block, (w.Text, w.ToolResult)):
                words.append(block.text)
    return words


async def kept(out: RunResult, model: Any = None, *, text: bool = False) -> None:
    """Check every invariant that a journal can show, for this run and its session."""
    store, entries = out._run.store, await out._run.store.read(out.session_id)
    _requests_are_whole(model)
    _every_run_ends(entries)
    _no_tool_ran_undecided(entries)
    assert messages_of(entries) == list(out.all_messages), "the view is not the fold of the journal"
    assert not audit([*out.all_messages, w.Message("user", "?")]) or out.status == "suspended"
    paid = [e for e in out.entries if isinstance(e, (Replied, ReplyFailed))]
    recorded = sum((e.usage for e in paid), NO_USAGE)
    assert out.own_usage == recorded, "I5: usage is the sum of recorded calls"
    calls = await store.calls(session=out.session_id, run=out._run.run_id)
    made = [e for e in out.entries if type(e) in (Replied, ReplyFailed)]
    assert len(calls) == len(made), "I5: every call is on the books"
    assert sum(call.usage.total_tokens for call in calls) == recorded.total_tokens
    if model is not None:
        _requests_can_be_rebuilt(entries, model.requests, text=text)
    await store.verify(out.session_id)
    assert not out._run.calls.threads, "I3: a thread is still at work"
    await nothing_left()


def _requests_are_whole(model: Any) -> None:
    for request in model.requests if model is not None else ():
        problems = audit(request.messages, tail=request.tail)
        assert not problems, f"I1: {problems}"


def _every_run_ends(entries: Sequence[JournalEntry]) -> None:
    open_run: str | None = None
    for entry in entries:
        if type(entry) is RunStarted:
            open_run = entry.run_id
        elif type(entry) is RunEnded:
            assert entry.run_id == open_run, "I4: an end without its beginning"
            assert entry.status
    assert type(entries[-1]) is RunEnded, f"I4: the journal ends in {entries[-1]!r:.80}"


def _no_tool_ran_undecided(entries: Sequence[JournalEntry]) -> None:
    decided: set[str] = set()
    intended: set[str] = set()
    for entry in entries:
        match entry:
            case ToolDecided(action="allow"):
                assert entry.caller and entry.rule and entry.digest
                decided.add(entry.call_id)
            case InboxTaken(item="result", payload=dict()):  # the host ran it
                intended.update(entry.payload)
            case ToolDecided(action="answer"):  # a policy answers in the tool's place
                intended.add(entry.call_id)
            case ToolIntended():
                assert entry.call_id in decided, "I7: an intent without a decision"
                intended.add(entry.call_id)
            case ToolResulted(outcome="ok" | "error" | "retry" | "timeout"):
                assert entry.call_id in intended, f"I7: {entry.tool} ran without an intent"
            case _:
                pass
    answered = [call for entry in entries if type(entry) is ToolMessage for call in entry.calls]
    assert len(answered) == len(set(answered)), "a call is answered once"


def _requests_can_be_rebuilt(
    entries: Sequence[JournalEntry], sent: Sequence[w.Request], *, text: bool
) -> None:
    rebuilt = iter(requests_of(entries))
    at = 0
    for entry in entries:
        if type(entry) is ReplyFailed:
            at = _skip_attempts(sent, at, entry.attempts)
        elif type(entry) is Replied:
            ours, theirs = next(rebuilt), sent[at]
            at = _skip_attempts(sent, at, entry.attempts)
            ours = as_text(ours) if text else ours
            assert list(ours.messages) == list(theirs.messages), "I6: other messages were sent"
            assert ours.frame == theirs.frame, "I6: another frame was sent"
            assert ours.tail == theirs.tail, "I6: another tail was sent"


def _skip_attempts(sent: Sequence[w.Request], at: int, attempts: int) -> int:
    """Return the place after a request and what was sent of it again."""
    first, last = sent[at], min(at + attempts, len(sent))
    while at < last and list(sent[at].messages) == list(first.messages):
        at += 1
    return at


async def written(store: Store, session_id: str, entries: Sequence[JournalEntry]) -> None:
    """Write a journal with these entries only, as after a kill."""
    journal = await store.open(session_id)
    for entry in entries:
        if type(entry) is not SessionOpened:
            journal.append(entry)
    await journal.close()


async def nothing_left() -> None:
    """Check I3: no task outlives its run."""
    await asyncio.sleep(0)
    others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done()]
    ours = [t for t in others if "windlass" in repr(t.get_coro())]
    assert not ours, f"I3: left behind {ours}"
