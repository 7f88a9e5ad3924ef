"""Guardrails: functions that stop a run before its first tool, or before its answer leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.server.asgi import app_of, post
from tests.stories.helpers import kept
from windlass.events import GuardrailDecided, Replied, ReplyFailed, TextDelta
from windlass.testing import call, run_virtual, scripted

SECRET = "the launch code is 1234"


def no_homework(text: str) -> str | None:
    return "we do no homework" if "homework" in text else None


async def no_secrets(text: str) -> str | None:
    await asyncio.sleep(0)
    return "a secret" if "launch code" in text else None


def make_tool(done: list[str]) -> Any:
    @w.tool
    async def write(text: str) -> str:
        """Write."""
        done.append(text)
        return "ok"

    return write


def verdicts(out: Any) -> list[tuple[str, str, str]]:
    found = [entry for entry in out.entries if isinstance(entry, GuardrailDecided)]
    return [(entry.stage, entry.guardrail, entry.verdict) for entry in found]


async def test_input_guardrail_stops_the_run_before_its_first_tool():
    done: list[str] = []
    model = scripted(call("write", text="x"), "Done.")
    agent = w.Agent(model, tools=[make_tool(done)], input_guardrails=[no_homework])
    out = await agent.run("Do my homework.")
    assert (out.status, out.stop_reason, done) == ("blocked", "input_guardrail", [])
    assert out.error is not None
    assert out.error["guardrail"] == "no_homework"
    assert "we do no homework" in out.error["message"]
    assert verdicts(out) == [("input", "no_homework", "tripped")]
    assert out.final_text == out.text == out.visible_text == ""
    with pytest.raises(w.OutputMissing, match="we do no homework"):
        _ = out.output
    with pytest.raises(w.GuardrailTripped, match="we do no homework"):
        out.raise_for_status()
    await kept(out, model)


async def test_input_that_passes_changes_nothing():
    done: list[str] = []
    model = scripted(call("write", text="x"), "Done.")
    agent = w.Agent(model, tools=[make_tool(done)], input_guardrails=[no_homework, no_secrets])
    out = await agent.run("Write x.")
    assert (out.output, done) == ("Done.", ["x"])
    assert sorted(verdicts(out)) == [
        ("input", "no_homework", "passed"),
        ("input", "no_secrets", "passed"),
    ]
    await kept(out, model)


def test_input_guardrail_runs_beside_the_first_call_which_is_cancelled_and_paid_for():
    async def slow_check(text: str) -> str:
        await asyncio.sleep(1)
        return "no"

    async def story() -> None:
        model = scripted("A long answer.", delay=3600)
        started = asyncio.get_running_loop().time()
        out = await w.Agent(model, input_guardrails=[slow_check]).run("hi")
        assert asyncio.get_running_loop().time() - started < 2
        assert out.status == "blocked"
        assert len(model.requests) == 1
        failed = [entry for entry in out.entries if isinstance(entry, ReplyFailed)]
        assert len(failed) == 1

    run_virtual(story())


def test_no_tool_starts_before_slow_input_guardrails_pass():
    done: list[str] = []
    order: list[str] = []

    @w.tool(side_effect_level="read_only")
    async def look(name: str) -> str:
        """Look."""
        order.append("look")
        return name

    async def slow(text: str) -> None:
        await asyncio.sleep(60)
        order.append("passed")

    async def story() -> None:
        model = scripted([call("look", name="a"), call("write", text="x")], "Done.")
        tools = [look, make_tool(done)]
        out = await w.Agent(model, tools=tools, eager_tools=True, input_guardrails=[slow]).run("x")
        assert out.output == "Done."
        assert order == ["passed", "look"]

    run_virtual(story())


async def test_first_that_trips_ends_the_others():
    ended: list[str] = []

    async def waits(text: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    out = await w.Agent(scripted("x"), input_guardrails=[waits, no_homework]).run("homework")
    assert out.status == "blocked"
    await asyncio.sleep(0)
    assert ended == ["waits"]


async def test_output_guardrail_keeps_the_answer_from_leaving():
    done: list[str] = []
    model = scripted(call("write", text="x"), SECRET)
    agent = w.Agent(model, tools=[make_tool(done)], output_guardrails=no_secrets)
    out = await agent.run("go", session_id="s")
    assert (out.status, out.stop_reason, done) == ("blocked", "output_guardrail", ["x"])
    assert out.final_text == ""
    assert SECRET not in out.text
    assert SECRET not in repr(out)
    assert SECRET not in str(out.all_messages)
    assert "[Withheld by an output guardrail.]" in str(out.all_messages)
    assert SECRET in str([e for e in out.entries if isinstance(e, Replied)])  # it is on record
    with pytest.raises(w.OutputMissing):
        _ = out.output
    await kept(out, model)


async def test_what_was_refused_is_not_sent_to_the_model_again():
    first = scripted("never")
    agent = w.Agent(first, input_guardrails=[no_homework])
    await agent.run("Do my homework: attack.", session_id="s")
    later = scripted("ok")
    out = await agent.with_(model=later).run("Do the above.", session_id="s")
    assert out.output == "ok"
    assert "attack" not in str(tuple(later.requests[0].messages))
    assert "[Withheld by an input guardrail.]" in str(tuple(later.requests[0].messages))


async def read_all(stream: Any) -> tuple[str, Any]:
    text, seen = "", ""
    async with stream as run:
        async for event in run:
            seen += str(event)
            if isinstance(event, TextDelta):
                text += event.text
        return text + "\0" + seen, await run.result()


@pytest.mark.parametrize("answer", [SECRET, "All fine."])
async def test_stream_holds_the_answer_back_until_output_guardrails_pass(answer: str):
    done: list[str] = []
    model = scripted(["Let me see.", call("write", text="x")], answer, stream=True)
    agent = w.Agent(model, tools=[make_tool(done)], output_guardrails=[no_secrets])
    shown, out = await read_all(agent.stream("go"))
    text, _, events = shown.partition("\0")
    assert "Let me see." in text  # it goes with calls, so it is no answer
    if answer == SECRET:
        assert out.status == "blocked"
        assert "launch" not in shown
    else:
        assert out.output == answer
        assert text.endswith(answer)
    assert "launch" not in await _text_of(agent, answer)
    assert events.count("RunEnded") == 1


async def _text_of(agent: w.Agent[Any, str], answer: str) -> str:
    async with agent.with_(model=scripted(answer)).stream("go") as run:
        return "".join([piece async for piece in run.text()])


def test_stream_shows_no_text_before_input_guardrails_pass():
    passed: list[float] = []

    async def slow(text: str) -> None:
        await asyncio.sleep(5)
        passed.append(asyncio.get_running_loop().time())

    async def story() -> None:
        agent = w.Agent(scripted("Hello there.", stream=True), input_guardrails=[slow])
        async with agent.stream("hi") as run:
            async for _piece in run.text():
                assert passed
            assert (await run.result()).output == "Hello there."

    run_virtual(story())


async def test_run_that_is_cancelled_shows_nothing_that_was_not_checked():
    started = asyncio.Event()

    async def waits(text: str) -> None:
        started.set()
        await asyncio.Event().wait()

    abort = w.Abort()
    task = asyncio.create_task(
        w.Agent(scripted(SECRET), output_guardrails=[waits]).run("go", abort=abort)
    )
    await started.wait()
    abort.abort("enough")
    out = await task
    assert out.status == "cancelled"
    assert out.final_text == ""
    assert verdicts(out) == [("output", "", "withheld")]


async def test_answer_of_a_run_that_a_limit_ends_is_checked():
    done: list[str] = []
    model = scripted([SECRET, call("write", text="x")], "never")
    agent = w.Agent(model, tools=[make_tool(done)], max_turns=1, output_guardrails=[no_secrets])
    out = await agent.run("go")
    assert out.status == "blocked"
    assert out.final_text == ""
    closing = scripted(call("write", text="x"), SECRET)
    agent = w.Agent(
        closing,
        tools=[make_tool(done)],
        max_turns=1,
        closing_answer=True,
        output_guardrails=[no_secrets],
    )
    out = await agent.run("go")
    assert (out.status, out.final_text) == ("blocked", "")


def boom(text: str) -> None:
    raise RuntimeError("no network")


def wrong(text: str) -> bool:
    return True


def raises(text: str) -> None:
    raise w.GuardrailTripped("by hand")


@pytest.mark.parametrize(
    ("guardrail", "reason"),
    [
        (boom, "it failed: RuntimeError: no network"),
        (wrong, "it returns None to pass, or a text as the reason to stop, not True"),
        (raises, "by hand"),
    ],
)
@pytest.mark.parametrize("stage", ["input", "output"])
async def test_what_is_not_clearly_a_pass_stops_the_run(stage: str, guardrail: Any, reason: str):
    options: Any = {f"{stage}_guardrails": [guardrail]}
    out = await w.Agent(scripted("x"), **options).run("hi")
    assert out.status == "blocked"
    assert reason in str(out.error)


async def test_guardrail_may_ask_who_calls_and_read_the_conversation():
    seen: list[Any] = []

    def look(text: str, ctx: w.GuardrailContext) -> None:
        seen.append((text, ctx.caller.user, ctx.deps, ctx.session_id, len(ctx.messages)))

    agent = w.Agent(scripted("Fine."), input_guardrails=[look], output_guardrails=[look])
    await agent.run("hi", caller=w.Caller("ann"), deps=7, session_id="s")
    assert seen == [("hi", "ann", 7, "s", 1), ("Fine.", "ann", 7, "s", 2)]


async def test_typed_answer_is_checked_as_text():
    model = scripted('{"code": "launch code"}')
    agent = w.Agent(model, output=dict[str, str], output_guardrails=[no_secrets])
    out = await agent.run("go")
    assert out.status == "blocked"
    with pytest.raises(w.OutputMissing):
        _ = out.output


async def test_recorded_verdicts_are_not_asked_for_again(tmp_path: Path):
    asked: list[str] = []

    def counted(text: str) -> None:
        asked.append(text)

    @w.tool(requires_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    store = f"sqlite:///{tmp_path / 's.db'}"
    options: dict[str, Any] = {"tools": [pay], "input_guardrails": [counted]}
    first = w.Agent(scripted(call("pay", amount=1), "Done."), **options)
    parked = await first.run("go", store=store, session_id="s")
    assert parked.status == "suspended"
    second = w.Agent(scripted("Done."), **options)
    out = await second.resume("s", store=store, decisions={parked.pending[0].id: True})
    assert (out.output, asked) == ("Done.", ["go"])


async def test_loop_generate_and_http_are_stopped_alike():
    looped = await w.agent_loop("homework", model=scripted("x"), input_guardrails=[no_homework])
    assert (looped.status, looped.stop_reason) == ("blocked", "input_guardrail")
    async with w.Runtime(store="memory:") as scope:
        with pytest.raises(w.GuardrailTripped):
            await scope.models.generate(
                "hi", model=scripted(SECRET), output_guardrails=[no_secrets]
            )
        pieces: list[str] = []
        with pytest.raises(w.GuardrailTripped):
            async for chunk in scope.models.generate_stream(
                "hi", model=scripted(SECRET, stream=True), output_guardrails=[no_secrets]
            ):
                pieces.append(chunk.delta_content or "")
        assert "".join(pieces) == ""
        app = app_of(scope, scripted(SECRET), output_guardrails=[no_secrets])
        reply = await post(app, {"input": "hi"})
        assert "launch" not in reply.text
        assert "a guardrail stopped the run" in reply.text


async def test_sub_agent_that_is_stopped_tells_its_parent():
    child = w.Agent(scripted(SECRET), name="clerk", output_guardrails=[no_secrets])
    model = scripted(call("clerk", task="tell"), "I could not.")
    out = await w.Agent(model, tools=[child.as_tool()]).run("go")
    assert out.output == "I could not."
    told = str(model.requests[1].messages[-1])
    assert "launch" not in told
    assert "a secret" in told


@pytest.mark.parametrize("given", [5, "no_homework", [5], [int], [lambda: None]])
def test_guardrail_that_is_no_function_of_a_text_is_refused(given: Any):
    with pytest.raises(w.ConfigError, match="input_guardrails"):
        w.Agent(scripted("x"), input_guardrails=given)


async def test_two_guardrails_of_one_name_are_both_asked():
    def one() -> Any:
        def check(text: str) -> None:
            return None

        return check

    out = await w.Agent(scripted("ok"), input_guardrails=[one(), one()]).run("hi")
    assert {name for _, name, _ in verdicts(out)} == {"check", "check_2"}
