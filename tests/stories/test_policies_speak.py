"""What policies say, ask, reshape, bring and remember."""

from __future__ import annotations

from typing import Any

import msgspec

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    own_tools,
    said,
    written,
)
from tests.stories.policies import at, named
from windlass.events import FinishProposed, Framed, IterationEnd, Noted, Remembered, Replied
from windlass.testing import call, scripted

# --------------------------------------------------------------------------- words


async def test_words_said_while_calls_are_open_are_heard_after_the_results():
    async def speak(self: Any, run: w.Run, call: w.ToolCall) -> None:
        run.say("by the way", "aside")

    model = scripted([call("note", text="x"), call("note", text="y")], "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[note], policies=[named("Speaks", before_tool=speak)]
    )
    assert said(model.requests[1]) == ["go", "noted x", "noted y", "by the way", "by the way"]
    assert model.requests[1].messages[-1].kind == "aside"
    await kept(out, model)


async def test_a_reminder_lives_for_as_many_requests_as_it_was_given():
    async def remind(self: Any, run: w.Run) -> None:
        if run.iteration == 0:
            run.say("it is Tuesday", "time", ttl=2)

    model = scripted(*(call("note", text=str(n)) for n in range(3)), "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[note], policies=[named("Clock", before_turn=remind)]
    )
    assert [[m.text for m in r.tail] for r in model.requests] == [
        ["it is Tuesday"],
        ["it is Tuesday"],
        [],
        [],
    ]
    assert all("Tuesday" not in m.text for m in out.all_messages)
    await kept(out, model)


async def test_a_reminder_is_not_used_up_by_a_call_that_failed():
    class Clock(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            run.say("it is Tuesday", "time", ttl=1)

        async def on_model_error(self, run: w.Run, error: w.ModelError) -> w.TryAgain:
            run.say("careful now", "hint", ttl=1)
            return w.TryAgain()

    model = scripted(w.BadRequest("busy"), call("note", text="x"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Clock()])
    assert [[m.text for m in r.tail] for r in model.requests] == [
        ["it is Tuesday"],
        ["it is Tuesday"],
        ["careful now", "it is Tuesday"],
    ]
    await kept(out, model)


async def test_reminders_are_the_same_after_a_crash():
    class Clock(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            run.say(f"turn {run.iteration + 1}", "time", ttl=2)

        async def before_model(self, run: w.Run, request: w.Request) -> None:
            run.say(f"late {run.number}", "time", ttl=1)

    def agent() -> tuple[w.Agent[Any, Any], Any]:
        model = scripted(
            then=lambda r: "ok" if len(r.messages) > 6 else call("note", text=str(len(r.messages)))
        )
        return w.Agent(model, tools=[note], policies=[Clock()]), model

    whole, model = agent()
    out = await whole.run("go")
    tails = [r.tail for r in model.requests]
    assert [m.text for m in tails[2]] == ["turn 2", "late 2", "turn 3"]
    ends = [i + 1 for i, e in enumerate(out.entries) if isinstance(e, IterationEnd)]
    for number, cut in enumerate(ends[:-1], 1):
        async with w.Runtime(store="memory:", environ={}) as runtime:
            await written(runtime.store, "s", out.entries[:cut])
            again, model = agent()
            await again.resume("s")
            assert [r.tail for r in model.requests] == tails[number:]


async def test_a_policy_may_ask_the_model_itself():
    class Judge(w.Policy[None]):
        async def before_finish(self, run: w.Run, turn: w.Turn, finish: w.Finish) -> None:
            reply = await run.ask(
                w.Request([w.Message("user", f"Is {turn.text} right?")], w.Frame("You judge.")),
                "judge",
            )
            assert reply.message.text == "yes"

    model = scripted(call("note", text="x"), "4", "yes")
    out = await w.agent_loop("2+2?", model=model, tools=[note], policies=[Judge()])
    assert (out.final_text, out.llm.iterations) == ("4", 2)
    assert out.usage.total_tokens == 45
    assert "yes" not in out.text
    assert [e.purpose for e in out.entries if isinstance(e, Replied)] == [None, None, "judge"]
    await kept(out, model)


async def test_after_a_question_of_its_own_the_frame_is_the_runs_again():
    class Judge(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
            await run.ask(w.Request([w.Message("user", "Good?")], w.Frame("You judge.")), "judge")

    model = scripted(call("note", text="x"), "yes", "ok", "yes")
    out = await w.agent_loop("go", "You work.", model=model, tools=[note], policies=[Judge()])
    assert [r.system for r in model.requests] == [
        "You work.",
        "You judge.",
        "You work.",
        "You judge.",
    ]
    frames = {e.digest: e.system for e in out.entries if isinstance(e, Framed)}
    replies = [e for e in out.entries if isinstance(e, Replied)]
    assert [frames[e.frame] for e in replies] == [r.system for r in model.requests]
    await kept(out, model)


async def test_a_question_counts_against_the_budget():
    class Judge(w.Policy[None]):
        async def before_finish(self, run: w.Run, turn: w.Turn, finish: w.Finish) -> None:
            await run.ask(w.Request([w.Message("user", "Good?")]), "judge")

    model = scripted("4", usage={"input_tokens": 60, "output_tokens": 40})
    out = await w.Agent(model, budget=w.Budget(tokens=100), policies=[Judge()]).run("go")
    assert (out.status, out.stop_reason, len(model.requests)) == ("budget_exhausted", "tokens", 1)


async def test_a_policy_may_reshape_the_view():
    class Forgets(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            if run.iteration == 2:
                run.reshape((1, 3), [w.Message("user", "(one note was taken)")], "summary")

    model = scripted(call("note", text="1"), call("note", text="2"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Forgets()])
    assert said(model.requests[2]) == ["go", "(one note was taken)", "noted 2"]
    await kept(out, model)


async def test_a_request_may_be_rewritten_for_one_call():
    class Rewrites(w.Policy[None]):
        async def before_model(self, run: w.Run, request: w.Request) -> w.Request:
            if run.iteration:
                return request
            return w.Request([w.Message("user", "GO")], request.frame, request.tail)

    model = scripted(call("note", text="x"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Rewrites()])
    assert said(model.requests[0]) == ["GO"]
    assert said(model.requests[1])[0] == "go"
    await kept(out, model)


async def test_notes_are_on_the_record():
    async def write(self: Any, run: w.Run, turn: w.Turn) -> None:
        run.note("weather", {"sun": True})

    out = await w.agent_loop("go", model=scripted("x"), policies=[named("Notes", after_turn=write)])
    assert [e for e in out.entries if isinstance(e, Noted)] == [Noted("weather", {"sun": True})]


async def test_a_policy_may_bring_tools():
    class Brings(w.Policy[None]):
        async def start(self, run: w.Run) -> list[w.Tool]:
            return [add]

    model = scripted(call("add", a=1, b=2), "3")
    out = await w.agent_loop("go", model=model, policies=[Brings()])
    assert (out.final_text, out.tools.successful) == ("3", ["add"])
    assert [tool.name for tool in own_tools(model.requests[0])] == ["add"]
    await kept(out, model)


async def test_a_policy_may_mend_what_made_the_model_fail():
    class Mends(w.Policy[None]):
        async def on_model_error(self, run: w.Run, error: w.ModelError) -> w.TryAgain | None:
            if isinstance(error, w.ContextOverflow):
                run.reshape((0, len(run.messages)), [w.Message("user", "short")], "overflow")
                return w.TryAgain()
            return None

    model = scripted(w.ContextOverflow("too long"), "ok")
    out = await w.agent_loop("long" * 50, model=model, policies=[Mends()])
    assert (out.status, said(model.requests[1])) == ("done", ["short"])
    await kept(out, model)
    failing = await w.agent_loop("x", model=scripted(w.AuthFailed("no key")), policies=[Mends()])
    assert failing.status == "provider_error"


async def test_the_end_may_change_the_status_and_add_to_the_result():
    class Adds(w.Policy[None]):
        async def end(self, run: w.Run, outcome: w.Outcome) -> w.Outcome:
            return msgspec.structs.replace(
                outcome, status="unverified", fields={**outcome.fields, "grade": 7}
            )

    out = await w.agent_loop("go", model=scripted("x"), policies=[Adds()])
    assert (out.status, out.grade, out.to_dict()["grade"]) == ("unverified", 7, 7)
    agent = await w.Agent(scripted("x"), policies=[Adds()]).run("go")
    assert (agent.status, agent.grade) == ("unverified", 7)


# --------------------------------------------------------------------------- memory


class Count(msgspec.Struct, frozen=True):
    turns: int = 0


class Counts(w.Policy[Count]):
    memory = Count

    async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
        run.remember(self, Count(run.recall(self).turns + 1))


class CountsForever(Counts):
    keeps = "session"


async def test_memory_is_journaled_and_restored_on_resume():
    host = w.Tool("ask", "Ask.", {})
    model = scripted(call("note", text="x"), call("ask"), "ok")
    agent = w.Agent(model, tools=[note, host], policies=[Counts()])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    values = [e.value for e in out.entries if isinstance(e, Remembered)]
    assert values == [{"turns": 1}, {"turns": 2}, {"turns": 3}]
    await kept(out, model)


async def test_a_new_run_starts_afresh_unless_memory_is_the_sessions():
    async def counted(policy: w.Policy[Any], session: str) -> list[Any]:
        agent = w.Agent(scripted(then="x"), policies=[policy])
        await agent.run("one", session_id=session)
        out = await agent.run("two", session_id=session)
        return [e.value["turns"] for e in out.entries if isinstance(e, Remembered)]

    assert await counted(Counts(), "a") == [1]
    assert await counted(CountsForever(), "b") == [2]


async def test_a_moment_is_run_again_only_if_nothing_of_it_is_recorded():
    model = scripted(call("note", text="x"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Counts()])
    cut = next(i for i, e in enumerate(out.entries) if isinstance(e, IterationEnd)) + 1
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", out.entries[:cut])
        again = await w.Agent(scripted("ok"), tools=[note], policies=[Counts()]).resume("s")
        values = [e.value["turns"] for e in again.entries if isinstance(e, Remembered)]
        assert values == [1, 2]


async def test_the_status_a_finish_names_survives_a_crash_before_it_was_agreed_to():
    asked: list[str] = []

    class Agrees(w.Policy[None]):
        async def before_finish(self, run: w.Run, turn: w.Turn, finish: w.Finish) -> None:
            asked.append(finish.status)

    policies = [at("after_turn", w.Finish("quiet", "idle")), Agrees()]
    out = await w.Agent(scripted("x"), policies=policies).run("go")
    assert (out.status, out.stop_reason) == ("idle", "quiet")
    cut = next(i for i, e in enumerate(out.entries) if isinstance(e, FinishProposed)) + 1
    async with w.Runtime(store="memory:", environ={}) as runtime:
        await written(runtime.store, "s", out.entries[:cut])
        again = await w.Agent(scripted(), policies=policies).resume("s")
        assert (again.status, again.stop_reason) == ("idle", "quiet")
    assert asked == ["idle", "idle"]


async def test_a_policy_that_never_gives_up_does_not_hold_the_run() -> None:
    class Stubborn(w.Policy[None]):
        async def on_model_error(self, run: w.Run, error: w.ModelError) -> w.TryAgain:
            return w.TryAgain()

    model = scripted(*[w.BadRequest("full")] * 50)
    out = await w.Agent(model, policies=[Stubborn()]).run("go")
    assert (out.status, out.stop_reason) == ("provider_error", "bad_request")
    assert len(model.requests) < 20
