"""What sub-agents wait for is in the parent's `pending`, and answers to the parent reach them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, scripted

Tree = w.Agent[Any, Any]


class Payments:
    """A tool that asks before it pays, and what was paid."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @w.tool(requires_approval=True)
        async def pay(to: str) -> str:
            """Pay."""
            self.paid.append(to)
            return f"paid {to}"

        self.tool = pay

    def clerk(self, *to: str, said: str = "Clerk done.", name: str = "clerk") -> Tree:
        """Build an agent that pays these in one reply; without any it goes on where it was."""
        replies = [[call("pay", to=one) for one in to], said] if to else [said]
        return w.Agent(scripted(*replies), tools=[self.tool], name=name)


def boss_of(*agents: Tree, begun: bool = False, name: str = "boss") -> Tree:
    """Build an agent that hands one task to each of the agents; one that has begun goes on."""
    asked = [call(one.name or "", task=f"go {one.name}") for one in agents]
    replies = [asked, f"{name} done."] if not begun else [f"{name} done."]
    return w.Agent(scripted(*replies), agents=list(agents), name=name)


async def test_call_of_a_child_is_shown_and_answered_through_its_parent():
    shop = Payments()
    boss = boss_of(shop.clerk("bob"))
    out = await boss.run("go", session_id="s")
    [waiting] = out.pending
    assert (out.status, waiting.name, waiting.arguments) == ("suspended", "pay", {"to": "bob"})
    assert (waiting.path, waiting.session_id) == (("clerk",), "s.call_1")
    [listed] = await w.approvals()
    assert (listed.session_id, listed.call_id) == (waiting.session_id, "call_1")
    out = await boss.resume("s", decisions={waiting.id: w.Allow()})
    assert (out.output, shop.paid, out.pending) == ("boss done.", ["bob"], [])
    assert await w.approvals() == []


@pytest.mark.parametrize("by", ["id", "call_id"])
async def test_ids_that_approvals_shows_are_answers_too(by: str):
    shop = Payments()
    boss = w.Agent(
        scripted(call("look"), call("clerk", task="pay"), "boss done."),
        tools=[w.Tool("look", "Look.", handler=lambda _: "seen")],
        agents=[shop.clerk("bob")],
    )
    await boss.run("go", session_id="s")
    [listed] = await w.approvals()
    out = await boss.resume("s", decisions={getattr(listed, by): True})
    assert (out.status, shop.paid) == ("done", ["bob"])


async def test_denial_reaches_the_child_with_its_reason():
    shop = Payments()
    clerk = shop.clerk("bob", said="I may not.")
    boss = boss_of(clerk)
    out = await boss.run("go", session_id="s")
    denied = w.Deny("bob is on leave", by=w.Caller("bea"))
    out = await boss.resume("s", decisions={out.pending[0].id: denied})
    assert (out.status, shop.paid) == ("done", [])
    model: Any = clerk.options["model"]
    assert "bob is on leave" in str(model.requests[-1].messages[-1])


async def test_three_levels_and_two_branches_answered_one_by_one(tmp_path: Path):
    """Each answer is given in a process that knows nothing but the store."""
    shop = Payments()

    def build(*, begun: bool) -> Tree:
        one = shop.clerk(*[] if begun else ["a"], name="one")
        two = shop.clerk(*[] if begun else ["b"], name="two")
        lead = boss_of(one, two, begun=begun, name="lead")
        return boss_of(lead, begun=begun)

    store = f"sqlite:///{tmp_path / 'runs.db'}"
    async with w.Runtime(store=store):
        out = await build(begun=False).run("go", session_id="s")
        assert [(one.path, one.arguments["to"]) for one in out.pending] == [
            (("lead", "one"), "a"),
            (("lead", "two"), "b"),
        ]
        first, second = out.pending
    async with w.Runtime(store=store):
        out = await build(begun=True).resume("s", decisions={second.id: True})
        assert (out.status, shop.paid) == ("suspended", ["b"])
        assert [one.id for one in out.pending] == [first.id]
    async with w.Runtime(store=store):
        kept = await build(begun=True).run("more", session_id="s")
        assert [one.id for one in kept.pending] == [first.id]
        out = await build(begun=True).resume("s", decisions={first.id: True})
        assert (out.output, shop.paid) == ("boss done.", ["b", "a"])


async def test_answers_for_the_parent_and_for_its_children_at_once():
    shop = Payments()
    model = scripted([call("pay", to="x"), call("clerk", task="pay")], "boss done.")
    boss = w.Agent(model, tools=[shop.tool], agents=[shop.clerk("bob")])
    out = await boss.run("go", session_id="s")
    while out.status == "suspended":  # its own question comes before anything runs
        out = await boss.resume("s", decisions={one.id: True for one in out.pending})
    assert (out.output, sorted(shop.paid)) == ("boss done.", ["bob", "x"])


async def test_result_of_a_call_that_the_host_runs_for_a_child():
    ask = w.Tool("ask_host", "Ask.", {"what": {"type": "string"}})
    child = w.Agent(scripted(call("ask_host", what="colour"), "blue"), tools=[ask], name="child")
    boss = boss_of(child)
    out = await boss.run("go", session_id="s")
    [waiting] = out.pending
    assert (waiting.name, waiting.path) == ("ask_host", ("child",))
    out = await boss.resume("s", results={waiting.id: "blue"})
    assert (out.status, out.output) == ("done", "boss done.")


async def test_tasks_of_fan_out_wait_in_the_run_of_their_tool():
    shop = Payments()
    clerk = w.Agent(
        scripted(then=lambda request: _pay_what_is_asked(request)),
        tools=[shop.tool],
        name="clerk",
    )

    @w.tool(keyed=True)
    async def pay_all(ctx: w.ToolContext[None], names: list[str]) -> Any:
        """Pay all of them."""
        out = await w.fan_out(clerk, names, parent=ctx)
        return out.parked or ", ".join(out.outputs)

    boss = w.Agent(scripted(call("pay_all", names=["a", "b", "c"]), "All paid."), tools=[pay_all])
    out = await boss.run("go", session_id="s")
    assert [(one.arguments["to"], one.path) for one in out.pending] == [
        ("a", ("pay_all",)),
        ("b", ("pay_all",)),
        ("c", ("pay_all",)),
    ]
    assert len(await w.approvals()) == 3
    first, *others = out.pending
    out = await boss.resume("s", decisions={first.id: True})
    assert out.status == "suspended" and [one.id for one in out.pending] == [o.id for o in others]
    out = await boss.resume("s", decisions={one.id: True for one in others})
    assert (out.output, sorted(shop.paid)) == ("All paid.", ["a", "b", "c"])
    assert out.tool_calls[0].result == "did a, did b, did c"


def _pay_what_is_asked(request: w.Request) -> Any:
    task = request.messages[0].text
    if request.messages[-1].role == "tool":
        return f"did {task}"
    return call("pay", to=task)


async def test_tasks_that_wait_are_listed_without_a_parent():
    shop = Payments()
    clerk = w.Agent(scripted(then=_pay_what_is_asked), tools=[shop.tool], name="clerk")
    out = await w.fan_out(clerk, ["a", "b"], session_id="batch")
    assert [one.status for one in out.failures] == ["suspended", "suspended"]
    assert [one.arguments["to"] for one in out.pending] == ["a", "b"]
    await w.approve(*[one.id for one in await w.approvals()])
    out = await w.fan_out(clerk, ["a", "b"], session_id="batch")
    assert (out.outputs, out.pending, out.parked) == (["did a", "did b"], [], None)


async def test_tool_that_goes_on_without_its_children_waits_for_none():
    """The question of a child whose call has a result is nobody's to answer."""
    shop = Payments()
    clerk = w.Agent(scripted(then=_pay_what_is_asked), tools=[shop.tool], name="clerk")

    @w.tool
    async def try_all(ctx: w.ToolContext[None]) -> str:
        """Pay all of them."""
        out = await w.fan_out(clerk, ["a"], parent=ctx)
        return f"{len(out.failures)} wait"

    model = scripted(call("try_all"), call("pay", to="x"), "end")
    boss = w.Agent(model, tools=[try_all, shop.tool])
    out = await boss.run("go", session_id="s")
    assert [one.arguments for one in out.pending] == [{"to": "x"}]
    assert [one.arguments for one in await w.approvals()] == [{"to": "x"}]
    out = await boss.resume("s", decisions={out.pending[0].id: True})
    assert (out.status, shop.paid) == ("done", ["x"])


async def test_child_of_the_agent_that_the_conversation_was_handed_to():
    shop = Payments()
    billing = w.Agent(
        scripted(call("clerk", task="pay"), "Billing done."),
        name="billing",
        agents=[shop.clerk("bob")],
    )
    front = w.Agent(
        scripted(call("transfer_to_billing", reason="money")), name="front", handoffs=[billing]
    )
    out = await front.run("go", session_id="s")
    [waiting] = out.pending
    assert (waiting.path, waiting.name, out.active_agent) == (("clerk",), "pay", "billing")
    out = await front.resume("s", decisions={waiting.id: True})
    assert (out.output, shop.paid) == ("Billing done.", ["bob"])


async def test_child_that_hands_its_task_over_waits_under_the_receiver():
    shop = Payments()
    clerk = shop.clerk("bob")
    desk = w.Agent(
        scripted(call("transfer_to_clerk", reason="money")), name="desk", handoffs=[clerk]
    )
    boss = boss_of(desk)
    out = await boss.run("go", session_id="s")
    [waiting] = out.pending
    assert (waiting.path, waiting.name) == (("desk",), "pay")
    out = await boss.resume("s", decisions={waiting.id: True})
    assert (out.output, shop.paid) == ("boss done.", ["bob"])


async def test_answers_that_mean_nothing_or_two_things_are_refused():
    shop = Payments()
    one, two = shop.clerk("a", name="one"), shop.clerk("b", name="two")
    look = w.Tool("look", "Look.", handler=lambda _: "seen")
    model = scripted(call("look"), [call("one", task="go"), call("two", task="go")], "done")
    boss = w.Agent(model, tools=[look], agents=[one, two])
    out = await boss.run("go", session_id="s")
    first, second = out.pending
    with pytest.raises(w.ConfigError, match=f"no open call 'nothing'.*{first.id}, {second.id}"):
        await boss.resume("s", decisions={"nothing": True})
    with pytest.raises(w.ConfigError, match="no open call 'nothing'"):
        await boss.resume("s", results={"nothing": "x"})
    with pytest.raises(w.ConfigError, match="nothing to deny"):
        await boss.resume("s", decisions={"call_2": False})  # the parent's own call, unasked
    with pytest.raises(w.ConfigError, match="2 open calls are meant by 'call_1'"):
        await boss.resume("s", decisions={"call_1": True})
    out = await boss.resume("s", decisions={first.id: True, second.id: False})
    assert (out.status, shop.paid) == ("done", ["a"])


async def test_second_answer_to_a_child_is_refused_and_the_same_again_counts_once():
    shop = Payments()
    boss = boss_of(shop.clerk("a", "b"))
    out = await boss.run("go", session_id="s")
    first, second = out.pending
    await w.deny((await w.approvals())[0].id, reason="no")
    with pytest.raises(w.AlreadyAnswered):
        await boss.resume("s", decisions={first.id: True})
    await w.approve((await w.approvals())[1].id)
    out = await boss.resume("s", decisions={second.id: True})
    assert (out.status, shop.paid) == ("done", ["b"])


async def test_only_who_may_answer_the_parent_answers_its_children():
    shop = Payments()
    boss = boss_of(shop.clerk("bob"))
    ann, eve = w.Caller("ann", tenant="acme"), w.Caller("eve", tenant="evil")
    out = await boss.run("go", session_id="s", caller=ann)
    waiting = out.pending[0].id
    with pytest.raises(w.NoSuchSession):
        await boss.resume("s", caller=eve, decisions={waiting: True})
    with pytest.raises((w.WindlassError, w.NoSuchSession)):
        await boss.resume("s", caller=ann, decisions={waiting: w.Allow(by=eve)})
    assert shop.paid == []
    out = await boss.resume("s", caller=ann, decisions={waiting: True})
    assert (out.status, shop.paid) == ("done", ["bob"])


async def test_generate_shows_and_answers_what_its_agents_wait_for():
    shop = Payments()
    boss: Any = shop.clerk("bob")
    runtime = w.Runtime()
    async with runtime as scope:
        model = scripted(call("clerk", task="pay"), "All paid.")
        with pytest.raises(w.Suspended) as parked:
            await scope.models.generate("go", model=model, tools=[boss.as_tool()], session_id="g")
        [waiting] = parked.value.pending
        assert waiting.name == "pay"
        out = await scope.models.resume(
            "g", model=model, tools=[boss.as_tool()], decisions={waiting.id: w.Allow()}
        )
        assert (out.content, shop.paid) == ("All paid.", ["bob"])


async def test_tasks_that_wait_are_discarded_with_their_parent():
    shop = Payments()
    clerk = w.Agent(scripted(then=_pay_what_is_asked), tools=[shop.tool], name="clerk")

    @w.tool(keyed=True)
    async def pay_all(ctx: w.ToolContext[None]) -> Any:
        """Pay all of them."""
        out = await w.fan_out(clerk, ["a", "b"], parent=ctx)
        return out.parked or "paid"

    boss = w.Agent(scripted(call("pay_all"), "Something else."), tools=[pay_all])
    out = await boss.run("go", session_id="s")
    first = out.pending[0].id
    assert len(await w.approvals()) == 2
    out = await boss.run("never mind", session_id="s", on_pending="discard")
    assert (out.output, shop.paid, await w.approvals()) == ("Something else.", [], [])
    ended = [info.status for info in await w.agent_session_list() if info.id != "s"]
    assert ended == ["cancelled", "cancelled"]
    again = await boss.resume("s", decisions={first: True})  # it has ended, and stays ended
    assert (again.output, shop.paid) == ("Something else.", [])


async def test_child_of_sub_agent_run_waits_in_the_run_of_its_tool():
    shop = Payments()
    model = scripted(call("pay", to="bob"), "Paid.")

    @w.tool(keyed=True)
    async def delegate(ctx: w.ToolContext[None]) -> Any:
        """Delegate."""
        result = await w.sub_agent_run("pay bob", parent=ctx, model=model, tools=[shop.tool])
        return w.Parked("a child waits") if result.status == "suspended" else result.summary

    boss = w.Agent(scripted(call("delegate"), "The end."), tools=[delegate])
    out = await boss.run("go", session_id="s")
    [waiting] = out.pending
    assert (waiting.name, waiting.path) == ("pay", ("delegate",))
    out = await boss.resume("s", decisions={waiting.id: True})
    assert (out.output, shop.paid, out.tool_calls[0].result) == ("The end.", ["bob"], "Paid.")
