"""A run that only looks makes a plan; approved as a whole, it may be done once, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import kept, results
from windlass import seams
from windlass.engine.environment import current_store
from windlass.engine.results import RunResult
from windlass.events import EffectPlanned, PlanMade, PlanUsed, ToolDecided, ToolIntended
from windlass.testing import call, scripted

DONE: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def nothing_done() -> Iterator[None]:
    DONE.clear()
    yield


@w.tool(side_effect_level="read_only", kind="read")
async def look(at: str) -> str:
    """Look at something."""
    return f"{at} is there"


@w.tool(kind="edit")
async def pay(to: str, amount: int) -> str:
    """Send money."""
    DONE.append(("pay", to, amount))
    return f"paid {amount} to {to}"


@w.tool(keyed=True, preview=lambda args: f"would mail {args['to']}")
async def mail(to: str) -> str:
    """Send a letter."""
    DONE.append(("mail", to))
    return f"mailed {to}"


TOOLS = [look, pay, mail]
ANN = w.Caller("ann", roles=("clerk",), tenant="acme")
WORK = (call("look", at="till"), call("pay", to="bob", amount=5), call("mail", to="bob"))


def agent(*script: Any, **options: Any) -> w.Agent[Any, str]:
    return w.Agent(scripted(*script, "ok"), tools=options.pop("tools", TOOLS), **options)


async def previewed(*script: Any, **options: Any) -> Any:
    out = await agent(*script, **options).run("go", dry_run="plan")
    assert out.status == "done", (out.status, out.error)
    return out


async def approved(*script: Any, **options: Any) -> w.EffectPlan:
    out = await previewed(*script, **options)
    return await w.approve_plan(out.plan, name="eve")


def rules(out: RunResult) -> list[tuple[str, str, str]]:
    return [(e.tool, e.action, e.rule) for e in out.entries if type(e) is ToolDecided]


# --------------------------------------------------------------------------- the preview


async def test_a_preview_reads_for_real_and_does_nothing_else():
    model = scripted(*WORK, "ok")
    out = await w.agent_loop("go", model=model, tools=TOOLS, dry_run="plan")
    assert out.status == "done" and DONE == []
    assert results(out)["look"] == ("ok", "till is there")
    outcome, words = results(out)["pay"]
    assert outcome == "ok" and "was not run" in words and "does not show it" in words
    assert results(out)["mail"] == ("ok", "would mail bob")
    assert [e.tool for e in out.entries if type(e) is ToolIntended] == ["look"]
    assert rules(out)[1:] == [("pay", "answer", "preview"), ("mail", "answer", "preview")]
    await kept(out, model)


async def test_the_plan_is_on_the_result_and_on_the_record():
    out = await previewed(*WORK)
    plan = out.plan
    assert [(e.tool, e.arguments) for e in plan.effects] == [
        ("pay", {"to": "bob", "amount": 5}),
        ("mail", {"to": "bob"}),
    ]
    assert plan.effects[0].note is not None and plan.effects[1].note is None
    assert plan.effects[0].call_id == "call_2" and plan.status == "done"
    assert [type(e) for e in out.entries if type(e) in (EffectPlanned, PlanMade)] == [
        EffectPlanned,
        EffectPlanned,
        PlanMade,
    ]
    assert await w.plan_of(out.session_id) == plan
    plain = await agent("nothing").run("go")
    assert plain.plan is None


async def test_a_preview_that_would_fail_is_told_so_and_not_planned():
    def over(args: dict[str, Any]) -> str:
        raise w.Retry("the account has 3")

    spend = w.Tool("spend", handler=lambda args: DONE.append(("spend",)), preview=over)
    out = await previewed(call("spend"), tools=[spend])
    assert results(out)["spend"] == ("retry", "the account has 3")
    assert out.plan.effects == () and DONE == []


async def test_tools_of_policies_and_of_the_host_are_intercepted_too():
    class Brings(w.Policy[None]):
        async def start(self, run: Any) -> list[w.Tool]:
            return [w.Tool("brought", handler=lambda args: DONE.append(("brought",)))]

    out = await previewed(
        call("brought"), call("hosted"), tools=[w.Tool("hosted")], policies=[Brings()]
    )
    assert [e.tool for e in out.plan.effects] == ["brought", "hosted"] and DONE == []


async def test_a_sub_agent_is_previewed_whole_and_its_effects_are_in_the_plan():
    def boss(**options: Any) -> w.Agent[Any, str]:
        clerk = w.Agent(
            scripted(call("look", at="x"), call("pay", to="bob", amount=5), "paid"),
            tools=TOOLS,
            name="clerk",
            approval_policy={"rules": []},
        )
        return agent(call("clerk", task="pay bob"), tools=[clerk.as_tool()], **options)

    out = await boss().run("go", dry_run="plan", session_id="boss")
    assert out.status == "done" and DONE == []
    (effect,) = out.plan.effects
    assert effect.tool == "pay" and effect.session_id == "boss.call_1"
    await w.approve_plan(out.plan)
    real = await boss().run("go", plan=out.plan, session_id="real")
    assert real.status == "done" and DONE == [("pay", "bob", 5)]


async def test_a_sub_agent_does_not_go_on_beside_its_parent():
    asks: Any = {"rules": [{"ask": "look"}]}
    clerk = w.Agent(scripted(*WORK, "ok"), tools=TOOLS, name="clerk", approval_policy=asks)
    boss = agent(call("clerk", task="pay"), tools=[clerk.as_tool()], dry_run="plan")
    out = await boss.run("go", session_id="boss")
    assert out.status == "suspended"
    with pytest.raises(w.ConfigError, match="works for 'boss'"):
        await clerk.resume("boss.call_1")
    (waiting,) = await w.approvals(session_id="boss.call_1")
    await w.approve(waiting.id)
    out = await boss.resume("boss")
    assert out.status == "done" and DONE == [] and len(out.plan.effects) == 2


@pytest.mark.parametrize("value", ["yes", "Plan", 3])
async def test_what_dry_run_is_not(value: Any):
    with pytest.raises(w.ConfigError, match="dry_run is"):
        agent(dry_run=value)


@pytest.mark.parametrize("value", ["", 3, {"session_id": "s", "id": "x"}])
async def test_what_a_plan_is_not(value: Any):
    with pytest.raises(w.ConfigError, match="plan is a plan"):
        agent(plan=value)


async def test_a_plan_is_made_or_done_not_both():
    with pytest.raises(w.ConfigError, match="give one of them"):
        await agent("x", dry_run="plan", plan="s").run("go")


# --------------------------------------------------------------------------- the real run


async def test_an_approved_plan_is_done_without_a_question():
    plan = await approved(*WORK)
    model = scripted(*WORK, "ok")
    out = await w.Agent(model, tools=TOOLS).run("go", plan=plan)
    assert out.status == "done"
    assert DONE == [("pay", "bob", 5), ("mail", "bob")]
    assert rules(out)[1:] == [("pay", "allow", "plan"), ("mail", "allow", "plan")]
    assert (await w.plan_of(plan.session_id)).used_by == out.session_id
    await kept(out, model)


async def test_a_plan_that_nobody_approved_is_refused_before_any_call():
    plan = (await previewed(*WORK)).plan
    model = scripted(*WORK, "ok")
    out = await w.Agent(model, tools=TOOLS).run("go", plan=plan)
    assert out.status == "failed" and isinstance(out.exception, w.PermissionDenied)
    assert "is not approved" in str(out.exception)
    assert model.requests == [] and DONE == []


async def test_a_session_without_a_plan_is_no_plan():
    out = await agent(*WORK).run("go", plan="nowhere")
    assert out.status == "failed" and "has no plan here" in (out.error or {})["message"]
    with pytest.raises(w.ConfigError, match="has no plan"):
        await w.approve_plan((await agent("x").run("go", session_id="plain")).session_id)


MUTATIONS = [
    (call("pay", to="bob", amount=6), "other arguments"),
    (call("pay", to="mallory", amount=5), "other arguments"),
    (call("wire", to="bob"), "does not have it"),
]


@pytest.mark.parametrize(("other", "why"), MUTATIONS)
async def test_anything_else_asks(other: w.ToolCall, why: str):
    plan = await approved(*WORK)
    wire = w.Tool(
        "wire", parameters={"to": {"type": "string"}}, handler=lambda args: DONE.append(())
    )
    doing = agent(other, call("pay", to="bob", amount=5), tools=[*TOOLS, wire], plan=plan)
    out = await doing.run("go")
    assert out.status == "suspended" and DONE == []
    assert why in out.pending[0].reason
    out = await doing.resume(out.session_id, decisions={out.pending[0].id: False})
    assert out.status == "done" and DONE == [("pay", "bob", 5)]


async def test_what_is_not_planned_runs_once_somebody_says_so():
    plan = await approved(call("pay", to="bob", amount=5))
    doing = agent(call("pay", to="bob", amount=6), plan=plan)
    out = await doing.run("go", session_id="real")
    (waiting,) = await w.approvals(session_id="real")
    assert waiting.rule == "plan" and waiting.arguments == {"to": "bob", "amount": 6}
    await w.approve(waiting.id, by=w.Caller("eve"))
    out = await doing.resume("real")
    assert out.status == "done" and DONE == [("pay", "bob", 6)]
    assert rules(out)[-1] == ("pay", "allow", "plan:eve")


async def test_each_effect_is_done_as_often_as_it_was_planned():
    twice = call("pay", to="bob", amount=5), call("pay", to="bob", amount=5)
    plan = await approved(*twice)
    out = await agent(*twice, call("pay", to="bob", amount=5), plan=plan).run("go")
    assert out.status == "suspended" and len(DONE) == 2
    assert "it was done" in out.pending[0].reason


async def test_a_plan_is_used_by_one_run():
    plan = await approved(*WORK)
    first = await agent(*WORK, plan=plan).run("go")
    assert first.status == "done" and len(DONE) == 2
    again = await agent(*WORK, plan=plan).run("go")
    assert again.status == "failed" and "was used by" in (again.error or {})["message"]
    with pytest.raises(w.ConfigError, match="was used by"):
        await w.approve_plan(plan)
    assert len(DONE) == 2


async def test_of_two_runs_at_once_one_does_the_plan_and_the_other_asks():
    plan = await approved(call("pay", to="bob", amount=5))
    second: list[Any] = []

    class Between(w.Policy[None]):
        async def after_reply(self, run: Any, turn: Any) -> None:
            if not second:
                second.append(await agent(call("pay", to="bob", amount=5), plan=plan).run("go"))

    out = await agent(call("pay", to="bob", amount=5), plan=plan, policies=[Between()]).run("go")
    assert second[0].status == "done" and out.status == "suspended"
    assert "was used by" in out.pending[0].reason and len(DONE) == 1


async def test_a_run_that_does_nothing_leaves_the_plan_to_others():
    plan = await approved(*WORK)
    assert (await agent(call("look", at="x"), plan=plan).run("go")).status == "done"
    assert (await agent(*WORK, plan=plan.session_id).run("go")).status == "done"
    assert len(DONE) == 2


async def test_approving_twice_is_refused():
    plan = await approved(*WORK)
    with pytest.raises(w.ConfigError, match="approved already, by eve"):
        await w.approve_plan(plan.session_id)


async def test_a_plan_that_was_changed_in_somebodys_hands_is_no_plan():
    plan = (await previewed(*WORK)).plan
    other = msgspec.structs.replace(plan, id="0" * 32)
    with pytest.raises(w.ConfigError, match="no longer the plan"):
        await w.approve_plan(other)
    await w.approve_plan(plan)
    out = await agent(*WORK, plan=other).run("go")
    assert out.status == "failed" and "not what session" in (out.error or {})["message"]


async def test_an_approval_expires(monkeypatch: pytest.MonkeyPatch):
    out = await previewed(*WORK)
    await w.approve_plan(out.plan, expires_in=60)
    later = seams.now() + 61
    monkeypatch.setattr(seams, "now", lambda: later)
    real = await agent(*WORK, plan=out.plan).run("go")
    assert real.status == "failed" and "has expired" in (real.error or {})["message"]
    assert (await w.approve_plan(out.plan, expires_in=60)).approved_by == "approved"


async def test_an_approval_that_expires_on_the_way_asks(monkeypatch: pytest.MonkeyPatch):
    plan = await approved(*WORK)
    now = seams.now() + 8 * 86400

    @w.tool(side_effect_level="read_only")
    async def sleep() -> str:
        """Sleep."""
        monkeypatch.setattr(seams, "now", lambda: now)
        return "slept"

    out = await agent(call("sleep"), *WORK, tools=[*TOOLS, sleep], plan=plan).run("go")
    assert out.status == "suspended" and DONE == [] and "has expired" in out.pending[0].reason


@pytest.mark.parametrize(
    "who",
    [
        w.Caller("bob", roles=("clerk",), tenant="acme"),
        w.Caller("ann", roles=("clerk", "boss"), tenant="acme"),
        w.Caller("ann", roles=(), tenant="acme"),
        w.Caller("ann", roles=("clerk",), tenant="evil"),
        w.Caller.local(),
    ],
)
async def test_a_plan_is_its_callers(who: w.Caller):
    plan = await approved(*WORK, caller=ANN)
    out = await agent(*WORK, plan=plan, caller=who).run("go")
    assert out.status == "failed" and DONE == [], out.status
    assert (await agent(*WORK, plan=plan, caller=ANN).run("go")).status == "done"


async def test_another_tool_of_the_same_name_asks():
    plan = await approved(*WORK)
    other = w.tool(kind="edit", description="Send money quickly.")(pay.__wrapped__)
    out = await agent(*WORK, tools=[look, other, mail], plan=plan).run("go")
    assert out.status == "suspended" and "the tool is not what it was" in out.pending[0].reason


async def test_a_fork_of_a_preview_brings_no_second_plan():
    out = await agent(*WORK).run("go", dry_run="plan", session_id="p")
    await w.approve_plan("p")
    await w.agent_session_fork("p", "q")
    assert (await agent(*WORK, plan="p").run("go")).status == "done"
    again = await agent(*WORK, plan="q").run("go")
    assert again.status == "failed" and len(DONE) == 2 and out.plan is not None


async def test_a_fork_of_a_run_by_a_plan_does_not_do_it_again():
    plan = await approved(*WORK)
    asks: Any = {"rules": [{"ask": "look"}]}
    doing = agent(WORK[0], approval_policy=asks, plan=plan)
    out = await doing.run("go", session_id="r")
    waiting = out.pending[0].id
    home = current_store()
    await home.fork("r", "f", await home.read("r"), None)  # as it is, with its open run
    for session_id, status in (("r", "done"), ("f", "suspended")):
        other = agent(*WORK[1:], approval_policy=asks)
        out = await other.resume(session_id, decisions={waiting: True})
        if session_id == "f":  # the answer is of another session
            out = await other.resume("f", decisions={out.pending[0].id: True})
        assert out.status == status, (session_id, out.status, out.error)
    assert "was used by session r" in out.pending[0].reason and len(DONE) == 2


async def test_a_session_at_work_keeps_its_pen():
    class Busy(w.Policy[None]):
        async def after_reply(self, run: Any, turn: Any) -> None:
            # by the record, or by who holds the pen where its first row is still on the way
            with pytest.raises(
                (w.ConfigError, w.Locked), match="may be at work|a run is under way"
            ):
                await w.approve_plan("p")

    await agent(*WORK).run("go", dry_run="plan", session_id="p")
    out = await agent("hi", policies=[Busy()]).run("and?", session_id="p")
    assert out.status == "done", out.error


async def test_the_real_run_may_go_on_in_the_session_of_the_preview():
    await agent(*WORK).run("go", dry_run="plan", session_id="p")
    await w.approve_plan("p")
    out = await agent(*WORK).run("now do it", session_id="p", plan="p")
    assert out.status == "done" and len(DONE) == 2
    assert any(type(e) is PlanUsed for e in out.entries)
    again = await agent(*WORK).run("and again", session_id="p", plan="p")
    assert again.status == "failed" and len(DONE) == 2


# --------------------------------------------------------------------------- with other authorities


async def test_what_is_denied_is_denied_in_both():
    denies: Any = {"rules": [{"deny": "mail"}]}
    out = await previewed(*WORK, approval_policy=denies)
    assert [e.tool for e in out.plan.effects] == ["pay"]
    plan = await approved(*WORK)
    real = await agent(*WORK, plan=plan, approval_policy=denies).run("go")
    assert real.status == "done" and DONE == [("pay", "bob", 5)]
    assert results(real)["mail"][0] == "denied"


@pytest.mark.parametrize(
    "options",
    [
        {"approval_policy": {"rules": [{"ask": "pay"}]}},
        {"approval_policy": {"rules": [{"ask": "pay"}], "request_permission": "called"}},
        {"permissions": {"deny": ["pay"], "on_escalation": "called"}},
        {"consent": lambda asked: "ask" if asked.name == "pay" else True},
    ],
    ids=["rules", "answers at once", "escalates", "consents"],
)
async def test_who_would_have_asked_is_in_the_plan_and_nobody_is_asked_twice(options: Any):
    def called(*_: Any) -> Any:
        raise AssertionError("nobody is asked about a plan's effect")

    for part in options.values():
        for key in part if isinstance(part, dict) else ():
            part[key] = called if part[key] == "called" else part[key]
    out = await previewed(*WORK, **options)
    (ask,) = out.plan.effects[0].asks
    assert ask["rule"] in (*options, "Consent") and "pay" in ask["reason"]
    await w.approve_plan(out.plan)
    real = await agent(*WORK, plan=out.plan, **options).run("go")
    assert real.status == "done" and len(DONE) == 2


async def test_what_a_parents_rules_ask_of_a_sub_agent_is_in_the_plan_too():
    asks: Any = {"rules": [{"ask": "pay"}]}

    def boss(**options: Any) -> w.Agent[Any, str]:
        clerk = w.Agent(scripted(WORK[1], "paid"), tools=TOOLS, name="clerk")
        tools = [clerk.as_tool()]
        return agent(call("clerk", task="pay"), tools=tools, approval_policy=asks, **options)

    out = await boss().run("go", dry_run="plan")
    assert out.status == "done" and out.plan is not None
    assert out.plan.effects[0].asks[0]["rule"] == "parent.approval_policy"
    await w.approve_plan(out.plan)
    assert (await boss(plan=out.plan).run("go")).status == "done" and len(DONE) == 1


async def test_the_third_leg_is_in_the_plan_and_asks_nobody_twice():
    @w.tool(
        side_effect_level="read_only", annotations={"reads_private": True, "reads_untrusted": True}
    )
    async def inbox() -> str:
        """Read the mail."""
        return "from eve"

    @w.tool(annotations={"sends_out": True})
    async def send(to: str) -> str:
        """Send."""
        DONE.append(("send", to))
        return "sent"

    script, tools = (call("inbox"), call("send", to="eve")), [inbox, send]
    plan = await approved(*script, tools=tools)
    assert [ask["rule"] for ask in plan.effects[0].asks] == ["taint"]
    out = await agent(*script, tools=tools, plan=plan).run("go")
    assert out.status == "done" and DONE == [("send", "eve")]
    other = await agent(*script[:1], call("send", to="bob"), tools=tools, plan=plan).run("go")
    assert other.status == "failed" and len(DONE) == 1


async def test_a_link_that_was_turned_since_the_plan_asks(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("a")

    @w.tool(kind="edit")
    async def write(path: str) -> str:
        """Write a file."""
        DONE.append(("write", path))
        return "written"

    asks: Any = {"rules": [{"ask": "write"}], "workspace": str(tmp_path)}
    given: Any = {"tools": [write], "approval_policy": asks}
    plan = await approved(call("write", path="link"), **given)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")
    out = await agent(call("write", path="link"), plan=plan, **given).run("go")
    assert out.status == "suspended" and DONE == []
    assert "what approval_policy looks at is not what it was" in out.pending[0].reason


async def test_a_read_still_asks_in_a_preview():
    doing = agent(*WORK, approval_policy={"rules": [{"ask": "look"}]}, dry_run="plan")
    out = await doing.run("go", session_id="p")
    assert out.status == "suspended" and out.plan is None
    out = await doing.resume("p", decisions={out.pending[0].id: True})
    assert out.status == "done" and len(out.plan.effects) == 2


async def test_one_question_is_asked_about_a_call_that_two_would_ask_about():
    plan = await approved(call("pay", to="bob", amount=5))
    doing = agent(
        call("pay", to="eve", amount=5), plan=plan, approval_policy={"rules": [{"ask": "pay"}]}
    )
    out = await doing.run("go")
    out = await doing.resume(out.session_id, decisions={out.pending[0].id: True})
    assert out.status == "done" and DONE == [("pay", "eve", 5)]


# --------------------------------------------------------------------------- going on


async def test_a_preview_stays_one_whoever_resumes_it():
    asks: Any = {"rules": [{"ask": "look"}]}
    out = await agent(*WORK, approval_policy=asks).run("go", dry_run="plan", session_id="p")
    other = agent(*WORK[1:], approval_policy=asks)
    out = await other.resume("p", decisions={out.pending[0].id: True})
    assert out.status == "done" and DONE == [] and len(out.plan.effects) == 2


async def test_a_run_by_a_plan_stays_one_whoever_resumes_it():
    plan = await approved(*WORK)
    asks: Any = {"rules": [{"ask": "look"}]}
    out = await agent(*WORK, approval_policy=asks).run("go", plan=plan, session_id="r")
    other = agent(*WORK[1:], call("pay", to="mallory", amount=9), approval_policy=asks)
    out = await other.resume("r", decisions={out.pending[0].id: True})
    assert out.status == "suspended" and len(DONE) == 2
    assert "not in plan" in out.pending[0].reason


async def test_a_run_does_not_become_a_preview_on_its_way():
    asks: Any = {"rules": [{"ask": "look"}]}
    await agent(*WORK, approval_policy=asks).run("go", session_id="r")
    with pytest.raises(w.ConfigError, match="began without"):
        await agent(*WORK, dry_run="plan").resume("r")


async def test_options_that_change_on_the_way_do_not_lift_a_preview():
    def after(turn: Any) -> Any:
        return {"next_options": {"dry_run": None, "temperature": 0.5}}

    out = await previewed(*WORK, post_turn_callback=after)
    assert DONE == [] and len(out.plan.effects) == 2
