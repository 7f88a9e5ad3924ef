"""Who may say no before a call runs: a consent, a person behind it, a limit on calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept, results
from tests.stories.tool_helpers import (
    both,
    decisions,
    look,
    write,
)
from windlass.testing import call, scripted


class Angry:
    """Compares itself with nothing."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = object.__hash__


async def test_consent_decides_each_call_and_is_on_record():
    seen: list[Any] = []

    def consent(asked: Any) -> bool:
        seen.append((asked.name, asked.arguments, asked.kind, asked["effect"]))
        return asked.kind == "read"

    out = await both(consent=consent)
    assert seen == [
        ("look", {"path": "a"}, "read", "read_only"),
        ("write", {"path": "b"}, "edit", "plain"),
    ]
    assert results(out)["look"] == ("ok", "contents of a")
    assert results(out)["write"] == ("denied", "Denied: write was not consented to.")
    assert decisions(out) == [("look", "allow", "Consent"), ("write", "deny", "Consent")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (False, "Denied: write was not consented to."),
        ({"allow": False, "reason": "too late"}, "Denied: too late"),
        ({"reason": "no"}, "Denied: no"),
        (w.Deny("because"), "Denied: because"),
        (None, "consent answers True, False"),
        (Angry(), "consent answers True, False"),
        ("yes", "consent answers True, False"),
        (1, "consent answers True, False"),
        ({"allow": "yes"}, "consent answers True, False"),
        ({"allow": True, "alow": True}, "consent answers True, False"),
    ],
)
async def test_all_that_is_not_clearly_a_yes_is_a_no(answer: Any, words: str):
    out = await both(consent=lambda asked: True if asked.name == "look" else answer)
    outcome, said = results(out)["write"]
    assert outcome == "denied" and words in said


@pytest.mark.parametrize("answer", [True, {"allow": True}, w.Allow()])
async def test_a_yes_in_any_form(answer: Any):
    out = await both(consent=lambda asked: answer)
    assert {outcome for outcome, _ in results(out).values()} == {"ok"}


async def test_consent_may_be_async_and_one_that_raises_refuses():
    async def consent(asked: Any) -> bool:
        await asyncio.sleep(0)
        if asked.name == "write":
            raise RuntimeError("the bridge is down")
        return True

    out = await both(consent=consent)
    assert results(out)["look"][0] == "ok"
    assert results(out)["write"] == ("denied", "Denied: consent failed: the bridge is down")


async def test_consent_cannot_change_what_runs():
    def consent(asked: Any) -> bool:
        asked.arguments["path"] = "/etc/passwd"
        return True

    assert results(await both(consent=consent))["look"] == ("ok", "contents of a")


async def test_an_ask_parks_the_run_until_a_person_decides():
    asked: list[str] = []

    def consent(about: Any) -> Any:
        asked.append(about.name)
        return {"allow": "ask", "reason": "Ann must say"} if about.name == "write" else True

    model = scripted([call("look", path="a"), call("write", path="b")], "ok")
    agent = w.Agent(model, tools=[look, write], consent=consent)
    out = await agent.run("go", session_id="s")
    assert (out.status, out.stop_reason) == ("suspended", "Ann must say")
    [waiting] = [one for one in out.pending if one.name == "write"]
    out = await agent.resume("s", decisions={waiting.id: w.Allow(by=w.Caller("Ann"))})
    assert out.status == "done" and results(out)["write"] == ("ok", "wrote b")
    assert asked == ["look", "write"]  # nobody is asked twice
    assert decisions(out)[-1] == ("write", "allow", "Consent:Ann")
    await kept(out, model)


async def test_a_person_may_say_no():
    model = scripted(call("write", path="b"), "ok")
    agent = w.Agent(model, tools=[write], consent=lambda about: "ask")
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: w.Deny("never")})
    assert results(out)["write"] == ("denied", "Denied: never")
    await kept(out, model)


async def test_the_answer_to_somebody_elses_ask_is_not_taken_for_an_answer_to_consent():
    class Approval(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend:
            return w.Suspend("approve?")

    asked: list[str] = []

    def consent(about: Any) -> bool:
        asked.append(about.name)
        return True

    model = scripted(call("write", path="b"), "ok")
    agent = w.Agent(model, tools=[write], consent=consent, policies=[Approval()])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert out.status == "done" and asked == ["write", "write"]


# --------------------------------------------------------------------------- a limit on calls


async def test_calls_above_the_limit_are_answered_and_not_run():
    model = scripted(*[call("add", a=n, b=1) for n in range(4)], "ok")
    out = await w.agent_loop("go", model=model, tools=[add], rate_limit={"max_calls": 2})
    assert [record.outcome for record in out.tool_calls] == ["ok", "ok", "denied", "denied"]
    assert "this run may make 2 tool calls" in out.tool_calls[2].result
    assert decisions(out)[2:] == [("add", "deny", "RateLimit")] * 2
    await kept(out, model)


async def test_a_limit_has_words_of_its_own_and_holds_inside_a_batch():
    model = scripted([call("add", a=n, b=1) for n in range(3)], "ok")
    limit = {"max_calls": 1, "message": "alert-loop cap"}
    out = await w.Agent(model, tools=[add], rate_limit=limit).run("go")
    assert [record.outcome for record in out.tool_calls] == ["ok", "denied", "denied"]
    assert out.tool_calls[1].result == "alert-loop cap"


async def test_a_limit_may_be_given_as_what_it_stands_for():
    model = scripted([call("add", a=n, b=1) for n in range(3)], "ok")
    limit = w.with_rate_limit(max_calls=1)
    out = await w.agent_loop("go", model=model, tools=[add], rate_limit=limit)
    assert [record.outcome for record in out.tool_calls] == ["ok", "denied", "denied"]
    rehearsed = await both(dry_run=w.with_dry_run(answer="fine"))
    assert results(rehearsed)["write"] == ("ok", "fine")
    with pytest.raises(w.ConfigError, match="rate_limit"):
        w.Agent(model, rate_limit=w.with_dry_run())


async def test_what_others_refuse_does_not_count_and_a_park_counts_nothing_twice():
    model = scripted(
        call("write", path="a"), call("write", path="b"), call("write", path="c"), "ok"
    )

    def consent(about: Any) -> Any:
        return {"a": False, "b": "ask", "c": True}[about.arguments["path"]]

    agent = w.Agent(model, tools=[write], consent=consent, rate_limit={"max_calls": 2})
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert [record.outcome for record in out.tool_calls] == ["denied", "ok", "ok"]


async def test_each_run_has_a_limit_of_its_own():
    agent = w.Agent(scripted(then=call("add", a=1, b=1)), tools=[add], rate_limit={"max_calls": 1})
    for _ in range(2):
        out = await agent.run("go", max_turns=2, session_id="s")
        assert [record.outcome for record in out.tool_calls] == ["ok", "denied"]
