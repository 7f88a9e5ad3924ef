"""A transcript that is at hand as data is made shorter, or told in short."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, said
from windlass.messages import Message, ToolCall, ToolResult
from windlass.models.history import audit
from windlass.testing import call, scripted


def told(count: int) -> dict[str, Any]:
    """A conversation of so many questions and answers."""
    messages: list[dict[str, Any]] = []
    for n in range(count):
        messages.append({"role": "user", "content": f"question {n} " * 20})
        messages.append({"role": "assistant", "content": f"answer {n} " * 20})
    return {"id": "t", "messages": messages, "events": [], "summary": None, "metadata": {"a": 1}}


def words(transcript: dict[str, Any]) -> list[str]:
    return [block["text"] for m in transcript["messages"] for block in m["content"]]


async def test_a_summary_of_your_own():
    first = await w.llm_call("Plan the work", model=scripted("the plan " * 50))
    second = await w.llm_call("Continue", model=scripted("done"), transcript=first.transcript)
    before = copy.deepcopy(second.transcript)
    short = await w.transcript_compact(
        second.transcript, {"keep_last": 1, "summary": "Planning complete."}
    )
    assert second.transcript == before
    assert short["summary"] == "Planning complete."
    texts = words(short)
    assert texts[0] == "Plan the work" and texts[1].endswith("Planning complete.")
    assert texts[2:] == ["Continue", "done"]
    event = short["events"][-1]
    assert event["kind"] == "compaction" and event["data"]["engine_strategy"] == "given"
    assert event["data"]["estimated_tokens_after"] < event["data"]["estimated_tokens_before"]
    json.dumps(short)
    model = scripted("ok")
    await w.llm_call("And now?", model=model, transcript=short)
    assert said(model.requests[0])[-1] == "And now?" and model.requests[0].system is None


async def test_nothing_is_older_than_what_is_kept():
    transcript = told(2)
    same = await w.transcript_compact(transcript, {"keep_last": 4, "summary": "All said."})
    assert same["messages"] == transcript["messages"] and same["summary"] == "All said."
    assert (await w.transcript_compact(transcript))["messages"] == transcript["messages"]


async def test_nobody_is_asked_unless_a_model_is_named():
    short = await w.transcript_compact(told(20))
    assert short["events"][-1]["data"]["engine_strategy"] == "truncate"
    assert "question 0" in words(short)[0] and "answer 0" in short["summary"]
    assert len(short["messages"]) == 12 and short["metadata"] == {"a": 1}


async def test_a_model_writes_it():
    model = scripted("NOTES")
    short = await w.transcript_compact(
        told(20), model=model, strategy="summarize_all", policy={"preserve": ["pears"]}
    )
    assert short["summary"] == "NOTES" and len(short["messages"]) == 3
    assert "- pears" in (model.requests[0].system or "") and not model.requests[0].tools
    assert "question 19" in words(short)[1], "what the caller said last stays"
    assert short["events"][-1]["data"]["strategy"] == "summarize_all"


async def test_a_provider_writes_it():
    w.llm_mock({"text": "MOCKED"})
    short = await w.transcript_compact(told(20), provider="mock")
    assert short["summary"] == "MOCKED"


async def test_a_function_writes_it():
    async def callback(archived: list[Message], reminders: Any, policy: Any) -> Any:
        return {"summary": f"{len(archived)} messages"}

    short = await w.transcript_compact(told(6), strategy="custom", callback=callback, keep_last=2)
    assert short["summary"] == "9 messages"


async def test_a_call_keeps_its_result():
    model = scripted(*[call("add", a=n, b=1) for n in range(12)], "13")
    out = await w.agent_loop("count", model=model, tools=[add])
    for last in range(12):
        short = await w.transcript_compact(out.transcript, keep_last=last)
        assert not audit([*_read(short), Message("user", "?")])


def _read(transcript: dict[str, Any]) -> list[Message]:
    import msgspec

    return [msgspec.convert(message, Message) for message in transcript["messages"]]


async def test_a_transcript_is_told_in_short():
    model = scripted("A short story.")
    assert await w.transcript_summarize(told(3), model=model) == "A short story."
    request = model.requests[0]
    assert "question 2" in request.messages[0].text and "notes" in (request.system or "")
    asked = {"model": scripted(""), "policy": w.compaction_policy(instructions="Be brief.")}
    assert "question 0" in await w.transcript_summarize(told(3), asked)
    assert "Be brief." in (asked["model"].requests[0].system or "")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"keep_lst": 1}, "keep_last"),
        ({"keep_last": -1}, "keep_last"),
        ({"summary": ""}, "summary"),
        ({"strategy": "x"}, "strategy"),
        ({"strategy": "custom"}, "callback"),
        ({"callback": print}, "custom"),
        ({"summary": "x", "strategy": "hybrid"}, "as it is"),
        ({"strategy": "truncate", "provider": "mock"}, "asks no model"),
        ({"policy": 3}, "policy"),
        ([1], "dict"),
    ],
)
async def test_what_cannot_be_is_refused(options: Any, match: str):
    with pytest.raises(w.ConfigError, match=match):
        await w.transcript_compact(told(20), options)


@pytest.mark.parametrize("transcript", [{}, {"messages": 3}, {"messages": [], "x": 1}])
async def test_what_is_no_transcript_is_refused(transcript: Any):
    with pytest.raises(w.ConfigError, match="transcript"):
        await w.transcript_compact(transcript)
    with pytest.raises(w.ConfigError, match="transcript"):
        await w.transcript_summarize(transcript, model=scripted("x"))


async def test_an_empty_one_has_nothing_to_tell():
    with pytest.raises(w.ConfigError, match="no messages"):
        await w.transcript_summarize({"messages": []}, model=scripted("x"))


def test_a_result_in_a_history_of_your_own_counts():
    pair = (ToolCall("c", "add", {"a": [1], "b": {"x": "y"}}), ToolResult("c", "3"))
    assert w.estimate_tokens([Message("assistant", pair[:1]), Message("tool", pair[1:])]) > 5
