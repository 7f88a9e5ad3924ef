"""A session keeps a scratchpad: recited at the tail, written anew now and then, citing its sources."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.scratchpad_helpers import (
    HOUSE,
    PURPOSE,
    TASK,
    actions,
    asked,
    busy,
    fact,
    note,
    plain,
    ran,
    recited,
    reorganisations,
    reorganizes,
    told,
    written_anew,
)
from windlass.events import (
    Replied,
)
from windlass.testing import scripted
from windlass.usage import Usage

# --------------------------------------------------------------------------- as it begins


async def test_it_begins_with_the_task_and_is_recited_in_every_request():
    model = busy(2)
    out = await ran(model)
    pad = out.transcript["scratchpad"]
    assert pad["goals"] == [{"text": TASK, "source_ref": "user:initial"}]
    assert pad["open_items"] == pad["facts"] == []
    assert pad["refs"] == [{"id": "user:initial", "kind": "user", "excerpt": TASK}]
    assert pad["schema"] and out.transcript["scratchpad_version"] == 1
    assert actions(out) == [("init", 1)] and told(out)[0].counts["goals"] == 1
    assert len(model.requests) == 3
    for request in model.requests:
        words = recited(request)
        assert words is not None and f"- {TASK} [user:initial]" in words
        assert request.tail[-1].text == words, "it is the last that the model reads"


async def test_it_is_never_part_of_the_view_or_the_frame():
    plain, model = busy(4), busy(4)
    await ran(plain, False)
    out = await ran(model)
    assert [list(r.messages) for r in asked(model)] == [list(r.messages) for r in plain.requests]
    assert [r.frame for r in asked(model)] == [r.frame for r in plain.requests]
    assert not any(m.kind == "scratchpad" for m in out.all_messages)


@pytest.mark.parametrize("off", [False, {"enabled": False}, w.Scratchpad(enabled=False), None])
async def test_it_can_be_off(off: Any):
    model = busy(4)
    out = await ran(model, off)
    assert not told(out) and len(model.requests) == 5
    assert all(not request.tail for request in model.requests)
    assert out.transcript["scratchpad"] is None and out.transcript["scratchpad_version"] == 0


async def test_without_recite_it_is_kept_and_not_said():
    model = busy(4)
    out = await ran(model, {"recite": False})
    assert all(not request.tail for request in asked(model))
    assert actions(out) == [("init", 1), ("reorganize", 2)]
    assert out.transcript["scratchpad"]["goals"][0]["text"] == "a house"


async def test_initial_takes_the_place_of_the_task():
    model = busy(1)
    initial = {
        "goals": ["green roof"],
        "open_items": [{"text": "ask about ticket 7", "source_ref": "ticket:7"}],
        "facts": [{"text": "budget 9", "source_ref": "user:initial"}],
        "refs": [{"id": "ticket:7", "kind": "ticket", "label": "the roof's ticket"}],
    }
    out = await ran(model, {"initial": initial})
    pad = out.transcript["scratchpad"]
    assert [item["text"] for item in pad["goals"]] == ["green roof"]
    words = recited(model.requests[0]) or ""
    assert "- ask about ticket 7 [ticket:7]" in words and "the roof's ticket" in words
    assert f"[user:initial] user: {TASK}" in words, "whoever cites the task finds it"
    assert TASK not in words.split("Sources:")[0]


async def test_of_a_very_long_task_the_beginning_is_the_goal():
    model = scripted("the end")
    out = await w.agent_loop("ä" * 50_000, model=model, scratchpad=True)
    goal = out.transcript["scratchpad"]["goals"][0]["text"]
    assert goal.startswith("ääää") and goal.endswith("[…]") and len(goal.encode()) < 4_100
    assert told(out)[0].bytes < 16 * 1024
    await kept(out, model)


# --------------------------------------------------------------------------- reorganised


async def test_every_third_continuing_turn_it_is_written_anew():
    model = busy(7)
    out = await ran(model)
    turns = [i for i, request in enumerate(model.requests) if reorganizes(request)]
    assert turns == [3, 7], "after turns 3 and 6, before the request that goes on"
    assert actions(out) == [("init", 1), ("reorganize", 2), ("reorganize", 3)]
    assert TASK in (recited(asked(model)[2]) or "")
    words = recited(asked(model)[3]) or ""
    assert "- a house [user:initial]" in words and "- the walls" in words
    assert "- step 1 is noted [turn:3]" in words and "[turn:3] tool" in words
    pad = out.transcript["scratchpad"]
    assert [item["text"] for item in pad["facts"]] == ["the roof is green", "step 1 is noted"]
    refs = {ref["id"]: ref for ref in pad["refs"]}
    assert refs["call_1"] == {
        "id": "call_1",
        "kind": "tool_result",
        "label": "note",
        "excerpt": "noted step 1",
    }, "who cites a message of results keeps the results"


@pytest.mark.parametrize(("every", "times"), [(1, 7), (2, 3), (3, 2), (5, 1), (8, 0), (0, 0)])
async def test_reorganize_every(every: int, times: int):
    model = busy(7)
    await ran(model, {"reorganize_every": every})
    assert len(reorganisations(model)) == times


async def test_a_run_that_does_not_go_on_pays_for_none():
    model = busy(9)
    out = await w.agent_loop(
        TASK, model=model, tools=[note], scratchpad={"reorganize_every": 3}, max_iterations=3
    )
    assert out.status == "budget_exhausted" and not reorganisations(model)


async def test_the_reorganiser_is_asked_plainly_and_its_tokens_count():
    model = busy(3, usage=Usage(100, 10))
    out = await ran(model)
    (request,) = reorganisations(model)
    assert request.frame.settings.temperature == 0
    assert [tool.name for tool in request.frame.tools if tool.name == "note"] == []
    entry = next(e for e in out.entries if type(e) is Replied and e.purpose is not None)
    assert entry.purpose == PURPOSE
    assert out.usage.input_tokens == 500 and out.llm.iterations == 4
    question = request.messages[0].text
    for name in ("user:initial", "turn:1", "turn:7", "call_3"):
        assert f'"{name}"' in question.splitlines()[-1], "it is told what it may cite"
    assert TASK in question and "noted step 3" in question


async def test_max_recent_messages_are_shown_and_may_be_cited():
    model = busy(3, written_anew(facts=[fact("x", "turn:6")]))
    out = await ran(model, {"max_recent_messages": 2})
    (request,) = reorganisations(model)
    last = request.messages[0].text.splitlines()[-1]
    assert '"turn:6", "turn:7", "call_3"' in last and "turn:5" not in last
    assert actions(out)[-1] == ("reorganize", 2)
    out = await ran(busy(3, written_anew(facts=[fact("x", "turn:5")])), {"max_recent_messages": 2})
    assert actions(out)[-1] == ("rejected", 1)
    out = await ran(busy(3, written_anew(facts=[fact("x", "turn:1")])), {"max_recent_messages": 0})
    assert actions(out)[-1] == ("rejected", 1)


async def test_by_default_the_last_eight_messages_are_shown():
    model = busy(6)
    await ran(model, {"reorganize_every": 6, "recite": False})
    last = reorganisations(model)[0].messages[0].text.splitlines()[-1]
    assert [f'"turn:{n}"' in last for n in (5, 6, 13)] == [False, True, True]


async def test_another_model_may_reorganise():
    model, other = busy(3), scripted(HOUSE, name="small")
    out = await w.agent_loop(
        TASK, model=model, tools=[note], scratchpad={"reorganizer": {"model": other}}
    )
    await kept(out)
    assert not reorganisations(model) and len(other.requests) == 1
    by = [e.model for e in out.entries if type(e) is Replied and e.purpose == PURPOSE]
    assert by == ["small"]


async def test_the_reorganiser_may_be_named_by_provider_and_model():
    async with w.Runtime(store="memory:", environ={}):
        w.llm_mock({"text": HOUSE})
        out = await w.agent_loop(
            TASK,
            model=busy(3),
            tools=[note],
            scratchpad={"reorganizer": {"provider": "mock", "model": "tidy-1"}},
        )
        assert actions(out)[-1] == ("reorganize", 2), told(out)
        by = [e for e in out.entries if type(e) is Replied and e.purpose == PURPOSE]
        assert [(e.provider, e.model) for e in by] == [("mock", "tidy-1")]
        w.llm_mock({"text": HOUSE})
        out = await w.agent_loop(
            TASK,
            model=busy(3),
            tools=[note],
            scratchpad=w.Scratchpad(reorganizer=w.Reorganizer(provider="mock")),
        )
        by = [e.provider for e in out.entries if type(e) is Replied and e.purpose == PURPOSE]
        assert by == ["mock"]


# --------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "scratchpad is True"),
        ("yes", "scratchpad"),
        ([], "scratchpad"),
        ({"recit": True}, "recite"),
        ({"recite": 1}, "recite"),
        ({"enabled": "no"}, "enabled"),
        ({"reorganize_every": -1}, "reorganize_every"),
        ({"reorganize_every": 1.5}, "whole"),
        ({"max_recent_messages": -1}, "max_recent_messages"),
        ({"schema_retries": -1}, "schema_retries"),
        ({"schema_retries": 11}, "schema_retries"),
        ({"reorganizer": "gpt"}, "reorganizer"),
        ({"reorganizer": {"modell": "x"}}, "model"),
        ({"reorganizer": {"model": ""}}, "model"),
        ({"reorganizer": {"provider": 3}}, "provider"),
    ],
)
async def test_what_cannot_be_is_refused_before_any_call(value: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop(TASK, model=model, scratchpad=value)
    assert not model.requests


@pytest.mark.parametrize(
    "same",
    [
        {},
        w.Scratchpad(),
        {"enabled": True, "recite": True},
        {"reorganize_every": 3, "max_recent_messages": 8, "schema_retries": 1},
        {"initial": None, "reorganizer": None},
    ],
)
async def test_true_in_other_words(same: Any):
    default, other = busy(7, "no"), busy(7, "no")
    await ran(default, True)
    await ran(other, same)
    assert [plain(r) for r in default.requests] == [plain(r) for r in other.requests]
