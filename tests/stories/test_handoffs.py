"""Handoffs: a conversation goes on under another agent, in one session."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.stories.helpers import kept, written
from windlass.engine.environment import current_environment
from windlass.events import Replied, RunStarted
from windlass.store.codec import decode
from windlass.testing import call, scripted


def hand(to: str) -> w.ToolCall:
    return call(f"transfer_to_{to}", reason="it is theirs")


@w.tool
async def refund(cents: int) -> str:
    """Refund."""
    done.append(cents)
    return f"refunded {cents}"


@w.tool
async def look(what: str) -> str:
    """Look something up."""
    return f"seen {what}"


done: list[int] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


async def test_conversation_goes_on_under_the_other_agent():
    model = scripted(call("refund", cents=5), "You have your money.")
    billing = w.Agent(model, name="billing", system="You pay.", tools=[refund], description="Pays.")
    front_model = scripted(hand("billing"))
    front = w.Agent(
        front_model, name="front", system="You route.", tools=[look], handoffs=[billing]
    )
    out = await front.run("I want my money back.")
    assert (out.output, done, out.status) == ("You have your money.", [5], "done")
    first, second = front_model.requests[0], model.requests[0]
    assert first.system == "You route." and second.system == "You pay."
    assert {tool.name for tool in first.tools} == {"look", "transfer_to_billing"}
    assert {tool.name for tool in second.tools} == {"refund", "transfer_to_front"}
    assert second.messages[0].text == "I want my money back."
    assert "Pays." in next(t for t in first.tools if t.name == "transfer_to_billing").description


async def test_next_turn_stays_with_the_active_agent_and_may_go_back(tmp_path: Path):
    billing_model = scripted("Paid.", "Anything else?", hand("front"))
    billing = w.Agent(billing_model, name="billing")
    front_model = scripted(hand("billing"), "Hello again.")
    front = w.Agent(front_model, name="front", handoffs=[billing])
    async with w.Runtime(store=f"sqlite:///{tmp_path / 'runs.db'}"):
        assert (await front.run("money", session_id="s")).output == "Paid."
        assert (await front.run("more", session_id="s")).output == "Anything else?"
        out = await front.run("bye", session_id="s")
        assert out.output == "Hello again."
        assert (len(front_model.requests), len(billing_model.requests)) == (2, 3)


async def test_receiver_without_handoffs_back_cannot_return_the_conversation():
    model = scripted("I finish.")
    billing = w.Agent(model, name="billing")
    front = w.Agent(
        scripted(hand("billing")), name="front", handoffs=[billing], handoffs_back=False
    )
    assert (await front.run("go")).output == "I finish."
    assert model.requests[0].tools == ()


async def test_tools_of_a_receiver_are_filtered_by_its_own_options_and_it_can_hand_back():
    model = scripted(hand("front"))
    billing = w.Agent(model, name="billing", tools=[look, refund], allowed_tools=["look"])
    front = w.Agent(scripted(hand("billing"), "Done."), name="front", handoffs=[billing])
    assert (await front.run("go")).output == "Done."
    assert {tool.name for tool in model.requests[0].tools} == {"look", "transfer_to_front"}


async def test_tools_that_the_front_disallows_are_not_offered_to_a_receiver():
    model = scripted("ok")
    billing = w.Agent(model, name="billing", tools=[look, refund])
    front = w.Agent(scripted(hand("billing")), handoffs=[billing], disallowed_tools=["refund"])
    await front.run("go")
    assert {tool.name for tool in model.requests[0].tools} == {"look", "transfer_to_front"}


async def test_rules_of_both_hold():
    billing = w.Agent(
        scripted(call("refund", cents=5), call("look", what="x"), "well"),
        name="billing",
        tools=[refund, look],
        permissions={"deny": ["look"]},
    )
    front = w.Agent(scripted(hand("billing")), handoffs=[billing], permissions={"deny": ["refund"]})
    out = await front.run("go")
    outcomes = {one.name: one.outcome for one in out.tool_calls}
    assert (outcomes["refund"], outcomes["look"], done) == ("denied", "denied", [])


async def test_ceiling_and_approvals_of_a_receiver_hold():
    billing = w.Agent(
        scripted(call("refund", cents=5), "well"),
        name="billing",
        tools=[refund],
        policy={"side_effect_level": "read_only"},
    )
    out = await w.Agent(scripted(hand("billing")), handoffs=[billing]).run("go")
    assert (out.tool_calls[-1].outcome, done) == ("denied", [])
    rules = {"rules": [{"match": {"tool": "refund"}, "action": "ask"}]}
    asking = billing.with_(
        model=scripted(call("refund", cents=5), "well"), approval_policy=rules, policy=None
    )
    out = await w.Agent(scripted(hand("billing")), handoffs=[asking]).run("go")
    assert (out.status, done) == ("suspended", [])


async def test_rules_of_a_receiver_do_not_stay_with_the_next():
    billing = w.Agent(
        scripted(hand("front")), name="billing", tools=[look], permissions={"deny": ["look"]}
    )
    front = w.Agent(
        scripted(hand("billing"), call("look", what="x"), "end"),
        name="front",
        tools=[look],
        handoffs=[billing],
    )
    out = await front.run("go")
    assert out.output == "end"
    assert [one.outcome for one in out.tool_calls] == ["ok", "ok", "ok"]


async def test_budget_and_turn_limit_are_of_the_front():
    ping = w.Agent(scripted(*[hand("pong")] * 50), name="ping", max_turns=1000)
    pong = scripted(*[hand("ping")] * 50)
    front = w.Agent(pong, name="pong", handoffs=[ping], max_turns=6, max_handoffs=100)
    out = await front.run("go")
    assert (out.status, out.stop_reason, out.turns) == ("budget_exhausted", "max_iterations", 6)


async def test_handoffs_are_bounded_and_the_last_must_finish():
    ping = w.Agent(scripted(*[hand("pong")] * 3, "I finish."), name="ping")
    pong = scripted(*[hand("ping")] * 3)
    out = await w.Agent(pong, name="pong", handoffs=[ping], max_handoffs=3).run("go")
    assert out.output == "I finish."
    assert "No more handoffs" in out.tool_calls[-1].result


async def test_first_handoff_of_a_reply_wins_and_other_calls_run():
    one = w.Agent(scripted("one here"), name="one")
    two = w.Agent(scripted("two here"), name="two")
    reply = [call("look", what="x"), hand("one"), hand("two")]
    out = await w.Agent(scripted(reply), tools=[look], handoffs=[one, two]).run("go")
    assert out.output == "one here"
    shown = {block.name: block.text for block in out.all_messages[2].content}
    assert shown["look"] == "seen x" and "Ignored" in shown["transfer_to_two"]


async def test_answer_has_the_type_of_the_front():
    billing = w.Agent(scripted('{"cents": 5}'), name="billing")
    front = w.Agent(scripted(hand("billing")), output=Bill, handoffs=[billing])
    assert (await front.run("go")).output == {"cents": 5}


class Bill(TypedDict):
    """What is due."""

    cents: int


async def test_input_filter_changes_what_the_receiver_sees():
    model = scripted("fine")
    billing = w.Agent(model, name="billing")

    def last_only(messages: Any) -> Any:
        return [w.Message("user", "a short word from the front"), *messages[-2:]]

    front = w.Agent(
        scripted(call("look", what="x"), hand("billing")),
        tools=[look],
        handoffs=[w.Handoff(billing, input_filter=last_only)],
    )
    out = await front.run("a long story")
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool"]
    assert "long story" not in str(model.requests[0].messages)
    assert "long story" in str(out.entries)


async def test_filter_that_tears_calls_apart_ends_the_run_with_its_name():
    front = w.Agent(
        scripted(hand("billing")),
        handoffs=[w.Handoff(w.Agent(scripted("x"), name="billing"), input_filter=lambda m: m[-1:])],
    )
    out = await front.run("go")
    assert out.status == "failed" and "input_filter" in str(out.error)


async def test_approval_asked_under_one_agent_is_answered_in_another_process(tmp_path: Path):
    def build() -> w.Agent[Any, Any]:
        billing = w.Agent(
            scripted(call("pay", cents=5), "Paid."), name="billing", tools=[pay], system="You pay."
        )
        return w.Agent(scripted(hand("billing")), name="front", handoffs=[billing])

    @w.tool(requires_approval=True)
    async def pay(cents: int) -> str:
        """Pay."""
        done.append(cents)
        return "paid"

    async with w.Runtime(store=f"sqlite:///{tmp_path / 'runs.db'}"):
        out = await build().run("go", session_id="s")
        assert out.status == "suspended" and not done
        billing = w.Agent(scripted("Paid."), name="billing", tools=[pay], system="You pay.")
        again = w.Agent(scripted(), name="front", handoffs=[billing])
        out = await again.resume("s", decisions={out.pending[0].id: True})
        assert (out.output, done) == ("Paid.", [5])


async def test_receiver_that_is_gone_is_named(tmp_path: Path):
    async with w.Runtime(store=f"sqlite:///{tmp_path / 'runs.db'}"):
        billing = w.Agent(scripted("Paid."), name="billing")
        await w.Agent(scripted(hand("billing")), handoffs=[billing]).run("go", session_id="s")
        other = w.Agent(scripted("x"), handoffs=[w.Agent("mock", name="support")])
        out = await other.run("go on", session_id="s")
        assert out.status == "failed" and "'billing'" in str(out.error)


@pytest.mark.parametrize(
    ("handoffs", "words"),
    [
        ("billing", "a list of Agents"),
        ([refund], "Agents or Handoffs"),
        ([w.Agent("mock")], "needs a name"),
        ([w.Agent("mock", name="a"), w.Agent("mock", name="a")], "two agents named 'a'"),
    ],
)
def test_what_is_no_list_of_named_agents_is_refused(handoffs: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        w.Agent("mock", handoffs=handoffs)


async def test_handoff_to_oneself_is_refused():
    with pytest.raises(w.ConfigError, match="itself"):
        await w.Agent(scripted("x"), name="a", handoffs=[w.Agent("mock", name="a")]).run("go")


async def test_receiver_with_a_type_of_its_own_is_refused():
    billing = w.Agent("mock", name="billing", output=int)
    with pytest.raises(w.ConfigError, match="output type"):
        await w.Agent(scripted("x"), handoffs=[billing]).run("go")


async def test_receiver_may_repeat_the_output_type_of_the_front():
    billing = w.Agent(scripted('{"cents": 5}'), name="billing", output=Bill)
    front = w.Agent(scripted(hand("billing")), handoffs=[billing], output=Bill)
    assert (await front.run("go")).output == {"cents": 5}


async def test_record_is_whole():
    billing = w.Agent(scripted("ok"), name="billing")
    model = scripted(hand("billing"))
    out = await w.Agent(model, handoffs=[billing]).run("go")
    frames = [entry.why for entry in out.entries if type(entry).__name__ == "Framed"]
    assert frames == ["start", "handoff to billing"]
    await kept(out)


# --------------------------------------------------------------------------- cut anywhere

ROUTE = ["billing", "support", "front"] * 3 + ["billing"]


def route(request: w.Request) -> Any:
    """Pass the conversation on by how often it was passed before; the last one answers."""
    turns = sum(message.role == "assistant" for message in request.messages)
    if turns == len(ROUTE):
        return "The end."
    return w.ToolCall(f"h{turns}", f"transfer_to_{ROUTE[turns]}", {"reason": "it is theirs"})


def build_three(sent: list[Any]) -> w.Agent[Any, Any]:
    """Build three agents that note their requests in one list."""

    def noted(request: w.Request) -> Any:
        sent.append((request.system, request.messages[:], [tool.name for tool in request.tools]))
        return route(request)

    support = w.Agent(scripted(then=noted), name="support", system="You help.", tools=[look])
    billing = w.Agent(
        scripted(then=noted), name="billing", system="You pay.", tools=[refund], handoffs=[support]
    )
    return w.Agent(
        scripted(then=noted),
        name="front",
        system="You route.",
        handoffs=[billing, w.Handoff(support, "Helps.")],
        max_handoffs=20,
        max_turns=50,
    )


async def test_ten_handoffs_cut_after_every_row_send_the_same_requests():
    whole: list[Any] = []
    out = await build_three(whole).run("go", session_id="whole")
    assert (out.output, len(whole)) == ("The end.", 11)
    assert [system for system, _, _ in whole[:4]] == [
        "You route.",
        "You pay.",
        "You help.",
        "You route.",
    ]
    store = current_environment().store
    rows = [decode(row.payload, "whole", 0) for row in await store.rows("whole")]
    cuts = 0
    for cut in range(1, len(rows)):
        before = [entry for row in rows[:cut] for entry in row]
        if not any(type(entry) is RunStarted for entry in before):
            continue
        cuts += 1
        await written(store, f"cut-{cut}", before)
        sent: list[Any] = []
        resumed = await build_three(sent).resume(f"cut-{cut}")
        assert resumed.output == "The end.", (cut, resumed)
        answered = sum(type(entry) is Replied for entry in before)
        assert sent == whole[answered:], cut
    assert cuts > 10


@given(
    front=st.sets(st.sampled_from(["refund", "look", "transfer_to_b"])),
    own=st.sets(st.sampled_from(["refund", "look"])),
    ceiling=st.sampled_from(["read_only", None]),
)
@settings(max_examples=40)
def test_authority_never_widens(front: set[str], own: set[str], ceiling: str | None):
    """What either refuses is refused; what neither refuses runs."""
    done.clear()
    calls = [call("refund", cents=1), call("look", what="x")]
    receiver = w.Agent(
        scripted(calls, "end"), name="b", tools=[refund, look], permissions={"deny": sorted(own)}
    )
    more: Any = {} if ceiling is None else {"policy": {"side_effect_level": ceiling}}
    agent = w.Agent(
        scripted(hand("b"), calls, "end"),
        tools=[refund, look],
        handoffs=[receiver],
        permissions={"deny": sorted(front)},
        **more,
    )
    out = agent.run_sync("go")
    ran = [record.name for record in out.tool_calls if record.outcome == "ok"]
    is_handed = "transfer_to_b" in ran
    forbidden = front | (own if is_handed else set())
    if ceiling is not None:
        forbidden |= {"refund", "look"}
    assert not forbidden & set(ran)
    if is_handed and ceiling is None:
        assert set(ran) - {"transfer_to_b"} == {"refund", "look"} - forbidden


async def test_conversation_returns_to_the_sender_where_the_receiver_ends():
    billing = w.Agent(scripted("The refund is 5."), name="billing", system="You pay.")
    model = scripted(hand("billing"), "You get 5.", "And more.")
    front = w.Agent(
        model, name="front", system="You route.", handoffs=[w.Handoff(billing, return_after=True)]
    )
    out = await front.run("go", session_id="s")
    assert (out.output, out.active_agent) == ("You get 5.", "front")
    assert "billing has finished" in model.requests[1].messages[-1].text
    assert "The refund is 5." in model.requests[1].messages[-1].text
    out = await front.run("more", session_id="s")
    assert (out.output, out.active_agent) == ("And more.", "front")


async def test_return_gives_no_answer_of_the_fronts_type_but_the_sender_does():
    expert = w.Agent(scripted("it is about forty"), name="expert")
    lead = w.Agent(
        scripted(hand("expert"), "forty, they say"),
        name="lead",
        handoffs=[w.Handoff(expert, return_after=True)],
    )
    front = w.Agent(
        scripted(hand("lead"), '{"cents": 40}'),
        output=Bill,
        name="front",
        handoffs=[w.Handoff(lead, return_after=True)],
    )
    out = await front.run("how much?")
    assert (out.output, out.active_agent) == ({"cents": 40}, "front")


async def test_receiver_that_hands_back_by_itself_does_not_return_twice():
    billing = w.Agent(scripted(hand("front")), name="billing")
    front = w.Agent(
        scripted(hand("billing"), "The end."),
        name="front",
        handoffs=[w.Handoff(billing, return_after=True)],
    )
    out = await front.run("go")
    assert (out.output, out.active_agent) == ("The end.", "front")


async def test_reset_session_begins_with_the_front_again():
    billing = w.Agent(scripted("billing here", "billing still"), name="billing")
    front = w.Agent(scripted(hand("billing"), "front here"), name="front", handoffs=[billing])
    assert (await front.run("go", session_id="s")).active_agent == "billing"
    assert (await front.run("go", session_id="s")).output == "billing still"
    await w.agent_session_reset("s")
    out = await front.run("go", session_id="s")
    assert (out.output, out.active_agent) == ("front here", "front")


def test_return_after_that_is_no_boolean_is_refused():
    billing = w.Agent(scripted("x"), name="billing")
    handoff: Any = w.Handoff(billing, return_after="yes")  # pyright: ignore
    with pytest.raises(w.ConfigError, match="return_after"):
        w.Agent(scripted("x"), name="front", handoffs=[handoff])


async def test_return_cut_after_every_row_sends_the_same_requests():
    def build(sent: list[Any]) -> w.Agent[Any, Any]:
        def say(name: str) -> Any:
            def answer(request: w.Request) -> Any:
                sent.append((name, request.system, request.messages[:]))
                turns = sum(message.role == "assistant" for message in request.messages)
                return [w.ToolCall("h0", "transfer_to_b", {"reason": "r"}), "B is done.", "End."][
                    turns
                ]

            return scripted(then=answer)

        other = w.Agent(say("b"), name="b", system="B.")
        return w.Agent(
            say("a"), name="a", system="A.", handoffs=[w.Handoff(other, return_after=True)]
        )

    whole: list[Any] = []
    out = await build(whole).run("go", session_id="whole")
    assert (out.output, [name for name, _, _ in whole]) == ("End.", ["a", "b", "a"])
    store = current_environment().store
    rows = [decode(row.payload, "whole", 0) for row in await store.rows("whole")]
    for cut in range(1, len(rows)):
        before = [entry for row in rows[:cut] for entry in row]
        if not any(type(entry) is RunStarted for entry in before):
            continue
        await written(store, f"cut-{cut}", before)
        sent: list[Any] = []
        resumed = await build(sent).resume(f"cut-{cut}")
        answered = sum(type(entry) is Replied for entry in before)
        assert (resumed.output, sent) == ("End.", whole[answered:]), cut
