"""Simulated users: a support desk of scripted and agentic conversations, and users who misbehave."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import written
from tests.stories.policies import named
from windlass.events import IterationStart, ToolCallAudit
from windlass.policies.simulated_user import read_decisions
from windlass.simulated_users.conversation import list_statements
from windlass.store.view import messages_of
from windlass.testing import call, converse, scripted


@w.tool(keyed=True)
async def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is refunded"


def desk(*replies: Any, user: w.SimulatedUser | None = None, **options: Any) -> w.Agent[Any, str]:
    """Build an agent at a support desk; with a user it can ask by a tool."""
    tools = [refund] if user is None else w.user_tools(user, [refund])
    return w.Agent(scripted(*replies), tools=tools, name="desk", **options)


def ask(question: str, *options: str) -> Any:
    arguments = {"question": question, **({"options": [*options]} if options else {})}
    return call("ask_user", **arguments)


ORDERS = {"A-1": "a lamp", "B-2": "a chair", "C-3": "a table"}
LEAVES: dict[str, tuple[Any, str]] = {
    "script over": ("", "script_over"),
    "thanks": ({"match": "*refunded*", "action": "stop", "reason": "complete"}, "complete"),
    "gives up": ({"match": "*refunded*", "action": "stop", "reason": "gave_up"}, "gave_up"),
    "stops without a reason": ({"match": "*refunded*", "action": "stop"}, ""),
    "closes in order": ({"action": "stop", "reason": "in order"}, "in order"),
}
DESK = [(order, way, leaving) for order in ORDERS for way in ("tool", "text") for leaving in LEAVES]
assert len(DESK) == 30


@pytest.mark.parametrize(("order", "way", "leaving"), DESK)
async def test_users_scripted_support_desk(order: str, way: str, leaving: str):
    end, reason = LEAVES[leaving]
    script = ["I want my money back.", {"match": "*which order*", "reply": f"{order}."}]
    user = w.scripted_user([*script, *([end] if end else [])])
    asked = ask("Which order?", *ORDERS) if way == "tool" else "Which order?"
    agent = desk(asked, call("refund", order=order), f"{order} is refunded.", user=user)
    talk = await converse(agent, user)
    talk.assert_ended("done", "simulated_user_stop")
    talk.assert_said(f"{order} is refunded.")
    assert [one.text for one in talk.statements] == [
        "I want my money back.",
        "Which order?",
        f"{order}.",
        f"{order} is refunded.",
    ]
    assert [audit["event_type"] for audit in talk.audits] == [
        "simulated_user_reply",
        "simulated_user_stop",
    ]
    assert (talk.audits[-1]["reason"] or "") == reason


def played(*replies: Any, **options: Any) -> w.SimulatedUser:
    return w.agentic_user(
        "Get order A-1 refunded.", "You are in a hurry.", None, scripted(*replies), options
    )


BYE = call("end_conversation", reason="done")
PLAYED: dict[str, tuple[list[Any], list[Any], str, str | None]] = {
    "answers and leaves": (["A-1.", BYE], ["Which order?", "Done."], "done", "done"),
    "leaves at once": ([BYE], ["Which order?"], "done", "done"),
    "gives up": ([call("end_conversation", reason="gave_up")], ["No."], "done", "gave_up"),
    "says goodbye beside it": ([("Bye!", BYE)], ["Done."], "done", "done"),
    "says nothing": ([""] * 6, ["Which order?"], "done", "silent"),
    "is nudged": (["", "A-1.", BYE], ["Which order?", "Done."], "done", "done"),
    "ends in a wrong way first": (
        [call("end_conversation", reason="bored"), BYE],
        ["Which order?"],
        "done",
        "done",
    ),
    "calls tools for ever": ([], ["Which order?"], "budget_exhausted", "max_iterations"),
    "has no model": ([w.AuthFailed("no key")], ["Which order?"], "failed", "no key"),
    "answers twice": (["A-1.", "Yes.", BYE], ["Which?", "Sure?", "Done."], "done", "done"),
}


@pytest.mark.parametrize("name", PLAYED)
async def test_users_agentic_support_desk(name: str):
    words, replies, status, reason = PLAYED[name]
    user = played(*words)
    if not words:
        model = scripted(then=call("end_conversation", reason="bored"))
        user = w.agentic_user("Get it refunded.", None, None, model)
    talk = await converse(desk(*replies), user, "Hello.")
    assert (talk.status, talk.audits[-1]["reason"]) == (status, reason), str(talk)
    if "answers" in name:
        talk.assert_said("A-1.", "user")


async def test_users_agentic_calls_count_in_the_run_and_its_tree():
    user = played("A-1.", BYE)
    talk = await converse(desk("Which order?", "Done."), user, "Hello.")
    children = talk.result.children
    assert len(children) == 2 and all([child.usage.total_tokens for child in children])
    assert talk.result.usage.total_tokens > talk.result.own_usage.total_tokens
    asked = await desk(ask("Which order?"), "Done.", user=played("A-1.")).run("Hello.")
    assert [child.name for child in asked.children] == ["ask_user"]


async def test_users_agentic_stops_with_the_budget_of_the_run():
    user = played("A-1. " * 50)
    agent = desk("Which order?", "Done.", budget={"tokens": 100})
    talk = await converse(agent, user, "Hello.")
    assert talk.status == "budget_exhausted"
    assert talk.result.usage.total_tokens <= 100


async def test_users_agentic_model_calls_are_limited_over_all_replies():
    model = scripted(then="What do you mean?")
    user = w.agentic_user("Understand.", None, None, model, {"max_llm_calls": 3})
    agent = w.Agent(scripted(then="What do YOU mean?"), max_turns=50)
    talk = await converse(agent, user, "Hello.")
    talk.assert_ended("budget_exhausted", "simulated_user_budget_exhausted")
    assert len(model.requests) == 3 and talk.audits[-1]["reason"] == "max_llm_calls"


async def test_users_agentic_reads_the_conversation_and_the_choices():
    model = scripted("Blue.")
    user = w.agentic_user("A blue door.", None, None, model)
    agent = desk("I paint.", ask("Which colour?", "red", "blue"), "Done.", user=user)

    def go_on(turn: Any) -> dict[str, Any] | None:
        return None if turn.iteration else {"message": "Go on.", "veto": True}

    await agent.run("A door.", post_turn_callback=go_on)
    prompt = model.requests[0].messages[-1].text
    assert "You: A door." in prompt and "The agent says now: Which colour?" in prompt
    assert "It offers: red, blue" in prompt


async def test_users_who_answer_nothing_end_the_run():
    user = w.scripted_user([])
    out = await desk(ask("Which order?"), "never", user=user).run("Hello.")
    assert (out.status, out.stop_reason) == ("done", "simulated_user_stop")


async def test_users_who_answer_everything_are_bounded():
    user = w.scripted_user([{"match": "*", "reply": "Yes."}], {"max_replies": 4})
    agent = w.Agent(scripted(then="More?"), max_turns=50)
    talk = await converse(agent, user, "Begin.")
    talk.assert_ended("budget_exhausted", "simulated_user_budget_exhausted")
    assert [a["event_type"] for a in talk.audits].count("simulated_user_reply") == 4
    assert isinstance(talk.result.exception, w.BudgetExceeded) or talk.result.exception is None


async def test_users_who_contradict_themselves_are_heard_in_order():
    user = w.scripted_user(["Red.", "No, blue.", "Red, I said."])
    agent = w.Agent(
        scripted("Which colour?", "Red then?", "Blue then?", "I give up."),
        post_turn_callback=w.simulated_user_post_turn(user),
    )
    out = await agent.run("Paint.")
    heard = [m.text for m in out.messages if m.role == "user"]
    assert heard == ["Red.", "No, blue.", "Red, I said."]
    assert (out.status, out.stop_reason, out.output) == ("done", "natural", "I give up.")


async def test_users_who_ask_back_for_ever_are_bounded_by_the_turns_too():
    user = w.scripted_user([{"match": "*", "reply": "Why?"}], max_replies=1000)
    agent = w.Agent(scripted(then="Why not?"), max_turns=6)
    talk = await converse(agent, user, "Begin.")
    assert (talk.status, talk.stop_reason) == ("budget_exhausted", "max_iterations")
    assert len(talk.audits) == 5  # nobody would read a sixth answer


@pytest.mark.parametrize("way", ["tool", "text"])
async def test_users_who_fail_end_the_run_as_failed(way: str):
    user = w.scripted_user([{"action": "fail", "reason": "asked for a password"}])
    asked = ask("Your password?") if way == "tool" else "Your password?"
    out = await desk(
        asked, "never", user=user, post_turn_callback=w.simulated_user_post_turn(user)
    ).run("Hello.")
    assert (out.status, out.stop_reason) == ("failed", "simulated_user_failed")
    assert out.error is not None and out.error["message"] == "asked for a password"
    with pytest.raises(w.WindlassError):
        out.raise_for_status()


async def test_users_decisions_are_audit_events():
    events: list[Any] = []
    user = w.scripted_user(["A-1.", {"action": "stop", "reason": "bye"}], name="ann")
    agent = desk(ask("Which order?"), ask("Anything else?"), user=user)
    await agent.run("Hello.", on_event=events.append)
    audits = [
        e for e in events if isinstance(e, ToolCallAudit) and "simulated" in e.audit["event_type"]
    ]
    assert [e.audit["event_type"] for e in audits] == [
        "simulated_user_reply",
        "simulated_user_stop",
    ]
    assert (audits[0].name, audits[0].audit["user"], audits[0].audit["text"]) == (
        "ask_user",
        "ann",
        "A-1.",
    )


@pytest.mark.parametrize("way", ["tool", "text"])
async def test_users_decisions_are_in_the_stream_too(way: str):
    user = w.scripted_user(["A-1."], name="ann")
    asked = ask("Which order?") if way == "tool" else "Which order?"
    after = w.simulated_user_post_turn(user)
    agent = desk(asked, "Thanks.", user=user, post_turn_callback=after)
    async with agent.stream("Hello.") as run:
        audits = [event.audit async for event in run if isinstance(event, ToolCallAudit)]
    assert "simulated_user_reply" in [audit["event_type"] for audit in audits]


async def test_users_asked_twice_in_one_reply_answer_in_turn_within_the_limit():
    user = w.scripted_user(["one", "two"], max_replies=1)
    agent = desk([ask("First?"), ask("Second?")], "never", user=user)
    out = await agent.run("Hello.")
    assert (out.status, out.stop_reason) == (
        "budget_exhausted",
        "simulated_user_budget_exhausted",
    )


async def test_users_count_over_the_runs_of_a_session():
    user = w.scripted_user(["one", "two"])
    for _ in range(2):
        agent = desk(ask("Which?"), "Thanks.", user=user)
        out = await agent.run("Hello.", session_id="s")
    assert [r.result for r in out.tool_calls] == ["two"]
    fresh = await desk(ask("Which?"), "Thanks.", user=user).run("Hello.", session_id="t")
    assert [r.result for r in fresh.tool_calls] == ["one"]


@pytest.mark.parametrize("kind", ["scripted", "agentic"])
async def test_users_run_cut_after_every_row_comes_to_the_same_end(kind: str):
    def work(request: w.Request) -> Any:
        turn = sum([message.role == "assistant" for message in request.messages])
        questions = [ask("First?"), "Second?", call("refund", order="A-1"), ask("Third?")]
        return questions[turn] if turn < len(questions) else "Over."

    def build() -> w.Agent[Any, str]:
        user = w.scripted_user(["one", "two", "three"])
        if kind == "agentic":
            player = scripted(then=lambda request: f"to {request.messages[0].text[-9:]}")
            user = w.agentic_user("Answer.", None, None, player, max_replies=3)
        return w.Agent(
            scripted(then=work),
            tools=w.user_tools(user, [refund]),
            post_turn_callback=w.simulated_user_post_turn(user),
        )

    whole = await build().run("Go.", session_id="s")
    assert whole.stop_reason == (
        "natural" if kind == "scripted" else "simulated_user_budget_exhausted"
    )
    entries = (await w.agent_session_read("s")).entries
    children = {
        child.session_id: (await w.agent_session_read(child.session_id)).entries
        for child in whole.children
    }
    first = next(at for at, entry in enumerate(entries) if type(entry) is IterationStart)
    said = list_statements(messages_of(entries))
    for cut in range(first + 1, len(entries) - 1):
        async with w.Runtime(store="memory:", environ={}) as runtime:
            await written(runtime.store, "s", entries[:cut])
            for child_id, stored in children.items():
                await written(runtime.store, child_id, stored)
            out = await build().resume("s")
            again = (await w.agent_session_read("s")).entries
        assert (out.status, out.stop_reason) == (whole.status, whole.stop_reason), entries[cut - 1]
        assert list_statements(messages_of(again)) == said, entries[cut - 1]
        assert len(read_decisions(again)) == len(read_decisions(entries)), entries[cut - 1]


async def test_users_statement_that_is_no_question_ends_the_run_as_it_is():
    user = w.scripted_user(["never"])
    agent = w.Agent(scripted("I painted it."), post_turn_callback=w.simulated_user_post_turn(user))
    out = await agent.run("Paint.")
    assert (out.status, out.stop_reason) == ("done", "natural")


@pytest.mark.parametrize(
    "text", ["Which?", "Which? ", '"Which?"', "**Which?**", "(which?)", "哪个？"]
)
async def test_users_recognise_a_question(text: str):
    user = w.scripted_user(["This."])
    agent = w.Agent(scripted(text, "Fine."), post_turn_callback=w.simulated_user_post_turn(user))
    assert (await agent.run("Go.")).output == "Fine."


async def test_users_may_read_the_workspace(tmp_path: Any):
    (tmp_path / "main.py").write_text("print(7)\n")
    model = scripted(call("file_read", path="main.py"), "It prints 7.")
    user = w.agentic_user("Explain.", None, w.simulated_user_read_tools(), model)
    agent = desk(ask("What does it print?"), "Thanks.", user=user, workspace=str(tmp_path))
    out = await agent.run("Hello.")
    assert [record.result for record in out.tool_calls] == ["It prints 7."]
    assert "print(7)" in str(model.requests[-1].messages[-1].content)


BAD: dict[str, Any] = {
    "entries are a text": lambda: w.scripted_user("yes"),
    "entry is a number": lambda: w.scripted_user([3]),  # pyright: ignore
    "entry without a reply": lambda: w.scripted_user([{"match": "*"}]),
    "entry with a blank reply": lambda: w.scripted_user([" "]),
    "entry with an unknown action": lambda: w.scripted_user([{"action": "leave"}]),
    "entry with an unknown key": lambda: w.scripted_user([{"matches": "*", "reply": "x"}]),
    "entry of another type": lambda: w.scripted_user([{"reply": 3}]),  # pyright: ignore
    "unknown option": lambda: w.scripted_user(["x"], {"max_reply": 3}),
    "negative limit": lambda: w.scripted_user(["x"], max_replies=-1),
    "blank goal": lambda: w.agentic_user(" "),
    "no iterations": lambda: w.agentic_user("x", None, None, scripted("x"), max_iterations=0),
    "name is no text": lambda: w.scripted_user(["x"], name=3),
    "tools of no user": lambda: w.user_tools("ann"),  # pyright: ignore
    "callback of no user": lambda: w.simulated_user_post_turn(None),  # pyright: ignore
}


@pytest.mark.parametrize("name", BAD)
def test_users_without_meaning_are_refused(name: str):
    with pytest.raises(w.ConfigError):
        BAD[name]()


async def test_users_converse_needs_a_first_word_and_the_callback():
    with pytest.raises(w.ConfigError, match="opening"):
        await converse(desk("x"), w.scripted_user([{"match": "*", "reply": "x"}]))
    with pytest.raises(w.ConfigError, match="post_turn_callback"):
        await converse(desk("x", post_turn_callback=lambda turn: None), w.scripted_user(["x"]))
    talk = await converse(desk("x"), w.scripted_user(["Hello."]))
    assert str(talk) == "user: Hello.\nagent: x\n[done: simulated_user_stop]"
    with pytest.raises(AssertionError, match="user: Hello."):
        talk.assert_said("*refund*")
    with pytest.raises(AssertionError, match="not failed"):
        talk.assert_ended("failed")


@pytest.mark.parametrize("given_to", ["agent", "converse"])
async def test_users_converse_under_policies_of_the_agent_and_of_the_run(given_to: str):
    seen: list[str] = []

    async def after_turn(self: Any, run: w.Run, turn: w.Turn) -> None:
        seen.append(turn.text)

    policies = [named("Listens", after_turn=after_turn)]
    user = w.scripted_user(["Hello."])
    if given_to == "agent":
        talk = await converse(desk("Hi.", policies=policies), user)
    else:
        talk = await converse(desk("Hi."), user, policies=policies)
    assert seen == ["Hi."]
    assert [one.kind for one in read_decisions(talk.result.entries)] == ["opening", "stop"]


def test_users_fixture_is_another_name_of_scripted():
    assert w.fixture_user is w.scripted_user
