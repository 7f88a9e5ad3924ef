"""A session as plain data."""

import json

from windlass.engine.transcript import (
    export_jsonl,
    transcript_events,
    transcript_of,
    transcript_render_full,
    transcript_render_visible,
)
from windlass.events import (
    BudgetExhausted,
    InboxTaken,
    IterationStart,
    NativeToolFallback,
    Noted,
    Replied,
    Reshaped,
    RunEnded,
    RunResumed,
    RunStarted,
    Said,
    SessionOpened,
    SessionReset,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import (
    Message,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    as_messages,
)
from windlass.store import codec as written
from windlass.store.view import messages_of
from windlass.testing.store_pieces import user
from windlass.usage import Usage

ORIGIN = Origin("anthropic", "claude")
THOUGHT = Thinking("Should I trust this?", {"signature": "abc"}, ORIGIN)
SUMMED = Thinking("It considered.", {"summary": ["It considered."]}, Origin("openai", "o"))
ENTRIES = [
    SessionOpened("s", metadata={"team": "a"}),
    RunStarted("r1", "agent", "local", "mock", "m"),
    user("Refund order 7."),
    IterationStart(1),
    Replied(
        Message(
            "assistant",
            (
                THOUGHT,
                SUMMED,
                Text("Looking."),
                ToolCall("c1", "find", {"id": 7}),
                Opaque(ORIGIN, {"type": "server_tool"}),
            ),
        ),
        Usage(100, 20),
        "tool_use",
        "anthropic",
        "claude",
        1,
        "f",
        native_id="msg_1",
    ),
    ToolIntended("c1", "find", "read_only"),
    ToolResulted("c1", "find", "ok", ToolResult("c1", "a very long row", name="find"), 12.5),
    ToolMessage(("c1",), {"c1": ToolResult("c1", "a very…", name="find")}),
    InboxTaken("mail_1", "steer", "be quick"),
    Said(Message("user", (Text("Go on."),), "nudge")),
    Replied(
        Message("assistant", (Text("yes"),)), Usage(5, 1), "end_turn", "mock", "m", 0, "f", "judge"
    ),
    Replied(
        Message("assistant", (Text("Done: refunded."),)),
        Usage(9, 9),
        "end_turn",
        "mock",
        "m",
        4,
        "f",
    ),
    NativeToolFallback(1),
    Noted("plan", "first this, then that"),
    Noted("mine", {"x": 1}),
    RunEnded("r1", "done"),
]


def kinds(transcript):
    return [event["kind"] for event in transcript_events(transcript)]


def test_its_parts():
    transcript = transcript_of(ENTRIES)
    assert set(transcript) == {
        "id",
        "messages",
        "events",
        "summary",
        "metadata",
        "scratchpad",
        "scratchpad_version",
    }
    assert transcript["id"] == "s" and transcript["summary"] is None
    assert transcript["metadata"] == {"team": "a"}
    assert json.loads(json.dumps(transcript)) == transcript
    back = as_messages(transcript["messages"])
    assert [m.content for m in back] == [m.content for m in messages_of(ENTRIES)]


def test_every_kind_is_told():
    transcript = transcript_of(ENTRIES)
    assert kinds(transcript) == [
        "run_start",
        "message",
        "iteration_start",
        "private_reasoning",
        "thinking_summary",
        "provider_payload",
        "message",
        "tool_intent",
        "tool_execution",
        "tool_result",
        "host_input",
        "message",
        "provider_payload",
        "model_reply",
        "provider_payload",
        "message",
        "native_tool_fallback",
        "plan",
        "note",
        "outcome",
    ]
    by_kind = {event["kind"]: event for event in reversed(transcript_events(transcript))}
    assert by_kind["tool_result"]["text"] == "a very…"  # what the model saw
    assert by_kind["tool_execution"]["duration_ms"] == 12.5
    payload = by_kind["provider_payload"]
    assert (payload["native_id"], payload["visibility"]) == ("msg_1", "private")
    assert payload["usage"] == {"input_tokens": 100, "output_tokens": 20}
    assert payload["native"] == [{"type": "server_tool"}]
    assert by_kind["private_reasoning"]["visibility"] == "private"
    assert by_kind["host_input"]["text"] == "be quick"


def test_what_people_see():
    assert transcript_render_visible(transcript_of(ENTRIES)) == (
        "user: Refund order 7.\n\nassistant: Looking.\n\nassistant: Done: refunded."
    )


def test_what_whoever_looks_closer_sees():
    full = transcript_render_full(transcript_of(ENTRIES))
    for words in (
        "[private_reasoning] assistant: Should I trust this?",
        "[thinking_summary] assistant: It considered.",
        "[tool_intent] find",
        "[tool_execution] find: ok",
        "[tool_result] tool: a very…",
        "[host_input] steer: be quick",
        "[message] user: Go on.",
        "[model_reply] assistant: yes",
        "[plan] plan: first this, then that",
        "[outcome]: done",
    ):
        assert words in full.splitlines()


def test_forks_resets_resumes_and_runs_left_behind():
    entries = [
        SessionOpened("b", parent_id="a", root_id="a", branch_at=2),
        user("hi"),
        SessionReset(),
        RunStarted("r1", "agent", "local", "mock", "m"),
        RunEnded("r1", "suspended"),
        RunResumed("r1", "gate"),
        RunStarted("r2", "agent", "local", "mock", "m"),
        BudgetExhausted("usd", 1.0, 1.2),
        Noted("transcript_archive"),
    ]
    transcript = transcript_of(entries)
    assert transcript["metadata"] == {"parent_transcript_id": "a", "branch_at": 2}
    assert kinds(transcript) == [
        "transcript_fork",
        "message",
        "transcript_reset",
        "run_start",
        "outcome",
        "transcript_resume",
        "transcript_abandon",
        "run_start",
        "budget_exhausted",
        "transcript_archive",
    ]
    abandoned = transcript_events(transcript)[6]
    assert abandoned["run_id"] == "r1"


def test_a_child_that_is_no_fork_names_its_parent_and_forks_nothing():
    transcript = transcript_of([SessionOpened("b", parent_id="a", root_id="a")])
    assert transcript["metadata"] == {"parent_transcript_id": "a"}
    assert kinds(transcript) == []


def test_the_summary_is_the_last_one():
    entries = [user(str(n)) for n in range(4)]
    for words in ("first", "second"):
        entries.append(Reshaped(0, 2, (Message("user", (Text(words),), "summary"),), "compaction"))
    assert transcript_of(entries)["summary"] == "second"
    assert transcript_of([*entries, SessionReset()])["summary"] is None


def test_events_are_copies():
    transcript = transcript_of(ENTRIES)
    transcript_events(transcript)[0]["kind"] = "changed"
    assert kinds(transcript)[0] == "run_start"
    assert transcript_events({}) == [] and transcript_render_visible({}) == ""


def test_export_is_the_journal_line_by_line():
    lines = export_jsonl(ENTRIES).splitlines()
    assert len(lines) == len(ENTRIES)
    again = written.decode(("[" + ",".join(lines) + "]").encode(), "s", 0)
    assert again == ENTRIES
