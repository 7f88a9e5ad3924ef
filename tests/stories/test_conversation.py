"""A conversation that outlives its runs, and is its user's alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, said
from windlass.testing import call, scripted

ANN, BEA, EVE = (
    w.Caller("ann", tenant="acme"),
    w.Caller("bea", tenant="acme"),
    w.Caller("ann", tenant="evil"),
)


@pytest.fixture
async def scope(tmp_path: Any) -> AsyncIterator[w.Runtime]:
    async with w.Runtime(store=f"sqlite:///{tmp_path}/c.db", tools=[add], environ={}) as runtime:
        yield runtime


async def turns(scope: w.Runtime, id: str, caller: w.Caller = ANN) -> list[w.ConversationTurn]:
    page = await scope.conversations[w.ConversationTurn].search(
        {"conversation": id}, sort="number", caller=caller
    )
    return page.rows


async def test_each_turn_is_written_as_it_happens(scope: w.Runtime):
    model = scripted(["Adding.", call("add", a=1, b=2)], "3")
    talk = await scope.conversations[w.ConversationResource].create({"title": "Sums"}, caller=ANN)
    await scope.models.generate("What is 1 + 2?", model=model, conversation=talk, caller=ANN)
    kept = await turns(scope, talk.id)
    assert [(t.number, t.role, t.content) for t in kept] == [
        (0, "user", "What is 1 + 2?"),
        (1, "assistant", "Adding."),
        (2, "tool", ""),
        (3, "assistant", "3"),
    ]
    assert kept[1].tool_calls[0]["name"] == "add" and kept[2].tool_results[0]["content"] == "3"
    again = await scope.conversations[w.ConversationResource].get(talk.id, caller=ANN)
    assert (again.turns, again.title, again.user) == (4, "Sums", "ann")
    [row, _] = await scope.store.calls(conversation=talk.id)
    assert row.tool_calls == 1


async def test_what_was_said_is_known_the_next_time(scope: w.Runtime):
    await scope.models.generate("I am Ann.", model=scripted("Hello."), conversation="c", caller=ANN)
    model = scripted("You are Ann.")
    await scope.models.generate("Who am I?", model=model, conversation="c", caller=ANN)
    assert said(model.requests[0]) == ["I am Ann.", "Hello.", "Who am I?"]
    assert [t.content for t in await turns(scope, "c")] == [
        "I am Ann.",
        "Hello.",
        "Who am I?",
        "You are Ann.",
    ]


async def test_a_list_is_a_history_of_its_own(scope: w.Runtime):
    await scope.models.generate("I am Ann.", model=scripted("Hello."), conversation="c", caller=ANN)
    model = scripted("ok")
    given = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    await scope.models.generate(given, model=model, conversation="c", caller=ANN)
    assert "I am Ann." not in said(model.requests[0])
    assert [t.role for t in await turns(scope, "c")][2:] == ["system", "user", "assistant"]


async def test_without_one_nothing_is_kept(scope: w.Runtime):
    await scope.models.generate("hi", model=scripted("ok"), caller=ANN)
    assert not await turns(scope, "c")


@pytest.mark.parametrize("other", [BEA, EVE])
async def test_it_is_nobody_elses(scope: w.Runtime, other: w.Caller):
    await scope.models.generate("secret", model=scripted("ok"), conversation="c", caller=ANN)
    model = scripted("ok")
    if other.tenant == "acme":
        with pytest.raises(w.NotFound, match="no conversation 'c'"):
            await scope.models.generate("what?", model=model, conversation="c", caller=other)
        assert not model.requests
    else:  # another tenant's conversation of that name is another conversation
        await scope.models.generate("what?", model=model, conversation="c", caller=other)
        assert said(model.requests[0]) == ["what?"]
    assert [t.content for t in await turns(scope, "c")] == ["secret", "ok"]
    assert all("secret" != t.content for t in await turns(scope, "c", other))


async def test_what_failed_is_kept_as_far_as_it_went(scope: w.Runtime):
    model = scripted(*[call("add", a=at, b=1) for at in range(3)])
    with pytest.raises(w.BudgetExceeded):
        await scope.models.generate(
            "go", model=model, conversation="c", caller=ANN, max_tool_iterations=2
        )
    kept = [t.role for t in await turns(scope, "c")]
    assert kept == ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"]


async def test_the_tools_of_a_caller_do_not_reach_conversations(scope: w.Runtime):
    assert [tool.name for tool in scope.tools(ANN)] == ["add"]


async def test_bad_conversations_are_refused(scope: w.Runtime):
    for bad in (3, "", {"id": "c"}):
        given: Any = bad
        with pytest.raises(w.ConfigError, match="conversation is a ConversationResource"):
            await scope.models.generate("hi", model=scripted("x"), conversation=given, caller=ANN)
