"""Options, results and messages that the specification names, at every entry point that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import windlass as w
from tests.stories.test_budget_tree import priced, usd
from windlass.models.registry.providers import resolve
from windlass.testing import call, scripted

from .helpers import add, kept

BOOK = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["title", "year"],
}
EMMA = {"title": "Emma", "year": 1815}
EMMA_TEXT = '{"title": "Emma", "year": 1815}'
DONE = '{"verdict": "done", "reasoning": "fine"}'

Door = Callable[..., Awaitable[Any]]


async def by_loop(prompt: Any, model: Any, **options: Any) -> Any:
    return await w.agent_loop(prompt, model=model, **options)


async def by_turn(prompt: Any, model: Any, **options: Any) -> Any:
    options.setdefault("tools", [add])
    return await w.agent_turn(
        prompt, model=model, judge={"model": scripted(*[DONE] * 5)}, **options
    )


async def by_agent(prompt: Any, model: Any, **options: Any) -> Any:
    return await w.Agent(model, **options).run(prompt)


async def by_run(prompt: Any, model: Any, **options: Any) -> Any:
    return await w.Agent(model).run(prompt, **options)


DOORS: dict[str, Door] = {"loop": by_loop, "turn": by_turn, "agent": by_agent, "run": by_run}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


# --------------------------------------------------------------------------- answers


@every_door
@pytest.mark.parametrize("shape", [{"schema": BOOK}, {"response_format": "json"}], ids=str)
async def test_schema_and_response_format_give_data(door: Door, shape: Any):
    model = scripted(EMMA_TEXT)
    out = await door("Who?", model, **shape)
    assert (out.status, out.data, out["data"]) == ("done", EMMA, EMMA)
    await kept(out)


@every_door
async def test_schema_retries_count_at_every_door(door: Door):
    out = await door("Who?", scripted("Emma", EMMA_TEXT), schema=BOOK, schema_retries=1)
    assert (out.status, out.data) == ("done", EMMA)
    model = scripted("Emma", "Emma", EMMA_TEXT)
    out = await door("Who?", model, schema=BOOK, schema_retries=1)
    assert (out.status, out.stop_reason, out.data) == ("failed", "schema_retries", None)
    assert len(model.requests) == 2 and "does not fit the schema" in out.error["message"]
    out = await door("Who?", scripted("Emma"), schema=BOOK)
    assert out.status == "failed", "without schema_retries nothing is asked again, as in llm_call"


async def test_schema_retries_limit_a_typed_output_only_if_given():
    replies = ("Emma", "Emma", EMMA_TEXT)
    assert (await w.Agent(scripted(*replies), output=BOOK).run("Who?")).output == EMMA
    out = await w.Agent(scripted(*replies), output=BOOK, schema_retries=1).run("Who?")
    assert out.status == "failed"
    with pytest.raises(w.ConfigError, match="give one of them"):
        await w.Agent(scripted("x"), output=BOOK, schema=BOOK).run("Who?")


async def test_schema_after_tools_and_over_a_park():
    ask = w.Tool("ask_host", "Ask the host.", {"x": {"type": "string"}}, kind="think")
    model = scripted(call("ask_host", x="?"), "no JSON", EMMA_TEXT)
    agent = w.Agent(model, tools=[ask], schema=BOOK, schema_retries=1)
    out = await agent.run("Who?", session_id="s")
    assert out.data is None
    out = await agent.resume("s", results={out.pending[0].id: "Austen"})
    assert (out.status, out.data) == ("done", EMMA)


@every_door
async def test_transcript_of_a_call_or_run_goes_on(door: Door):
    first = await w.llm_call("Plan the work", model=scripted("Planned."))
    model = scripted("Continued.")
    out = await door("Continue", model, transcript=first.transcript)
    said = [message.text for message in model.requests[0].messages]
    assert said == ["Plan the work", "Planned.", "Continue"]
    model = scripted("And on.")
    await door("More", model, transcript=out.transcript)
    assert [m.text for m in model.requests[0].messages][:4] == [*said, "Continued."]
    await kept(out)


async def test_transcript_is_checked_before_any_call():
    model = scripted("x")
    for wrong, why in (
        ({"messages": 7}, "messages are a list"),
        ({"massages": []}, "did you mean 'messages'"),
        ("text", "transcript is a dict"),
    ):
        with pytest.raises(w.ConfigError, match=why):
            await w.agent_loop("go", model=model, transcript=wrong)
    past = {"messages": [{"role": "user", "content": "a"}]}
    with pytest.raises(w.ConfigError, match="give one"):
        await w.agent_loop("go", model=model, transcript=past, messages=["x"])
    assert not model.requests


async def test_messages_need_no_prompt():
    history = [{"role": "user", "content": "hi"}]
    for ask in (w.llm_call, w.agent_loop):
        model = scripted("x")
        await ask(model=model, messages=history)
        assert [m.text for m in model.requests[0].messages] == ["hi"]
    model = scripted("x ##DONE##")
    await w.agent_turn(model=model, messages=history, judge={"model": scripted(DONE)})
    assert [m.text for m in model.requests[0].messages] == ["hi"]
    for ask in (w.llm_call, w.agent_loop, w.agent_turn):
        with pytest.raises(w.ConfigError, match="needs a prompt, or messages"):
            await ask(model=scripted("x"))


@pytest.mark.parametrize("content", ["3", [{"type": "text", "text": "3"}]], ids=["text", "blocks"])
async def test_dict_messages_may_hold_tool_use_and_tool_result(content: Any):
    use = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}
    history = [
        {"role": "user", "content": "1 + 2?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, use]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": content}],
        },
    ]
    for ask in (
        lambda model: w.llm_call(model=model, messages=history, tools=[add]),
        lambda model: w.agent_loop(model=model, messages=history, tools=[add]),
        lambda model: w.Agent(model, tools=[add]).run(history),
    ):
        model = scripted("3")
        await ask(model)
        *_, asked, answered = model.requests[0].messages
        assert asked.tool_calls[0].arguments == {"a": 1, "b": 2}
        [result] = answered.content
        assert isinstance(result, w.ToolResult)
        assert (result.id, result.name, result.text) == ("c1", "add", "3")
    with pytest.raises(w.ConfigError, match="c1"):
        await w.agent_loop(model=scripted("x"), messages=history[:1] + history[2:], tools=[add])


# --------------------------------------------------------------------------- limits


async def test_budget_of_a_single_call():
    reply = await w.llm_call("x", model=scripted("y"), budget=w.Budget(tokens=200), max_tokens=50)
    assert reply.text == "y"
    model = priced("y", usage=usd(10))
    with pytest.raises(w.BudgetExceeded, match=r"limit of \$0.0001 leaves no room") as refused:
        await w.llm_call("x", model=model, budget={"usd": 0.0001})
    assert refused.value.limit == "usd" and not model.requests
    with pytest.raises(w.BudgetExceeded) as refused:
        model = scripted("no", "no", EMMA_TEXT)
        budget = w.Budget(iterations=2)
        await w.llm_call("x", model=model, schema=BOOK, schema_retries=5, budget=budget)
    assert refused.value.limit == "iterations" and len(model.requests) == 2

    class Slow(type(model)):
        async def respond(self, request: Any, emit: Any) -> Any:
            await asyncio.sleep(60)

    slow = Slow.__new__(Slow)
    slow.__dict__.update(scripted("x").__dict__)
    with pytest.raises(w.BudgetExceeded, match=r"0.01 seconds") as refused:
        await w.llm_call("x", model=slow, budget={"seconds": 0.01})
    assert refused.value.limit == "seconds"
    model = priced("no", "no", EMMA_TEXT, usage=usd(60))
    with pytest.raises(w.BudgetExceeded):
        budget = w.Budget(usd=0.1)
        await w.llm_call(
            "x", model=model, schema=BOOK, schema_retries=5, budget=budget, max_tokens=30
        )
    assert len(model.requests) < 3, "retries share the budget of their call"


async def test_limit_that_was_hit_is_a_field():
    calls = [call("add", a=1, b=1)] * 3
    out = await w.agent_loop("go", model=scripted(*calls), tools=[add], max_iterations=1)
    assert (out.limit, out["limit"]) == ("max_iterations", "max_iterations")
    model = scripted(*calls, usage=w.Usage(500, 500))
    out = await w.Agent(model, tools=[add], budget=w.Budget(tokens=1200)).run("go")
    assert out.limit == "tokens"
    with pytest.raises(w.BudgetExceeded) as error:
        out.raise_for_status()
    assert error.value.limit == "tokens"
    assert (await w.agent_loop("go", model=scripted("done"))).limit is None
    async with w.Runtime(store="memory:", tools=[add], environ={}) as scope:
        with pytest.raises(w.BudgetExceeded) as error:
            await scope.models.generate("go", model=scripted(*calls), max_tool_iterations=1)
        assert error.value.limit == "max_tool_iterations"


async def test_llm_budget_says_what_it_refuses():
    async with w.Runtime(store="memory:", environ={}):
        for wrong in (-1, "1", True, float("nan")):
            with pytest.raises(w.ConfigError, match="llm_budget takes dollars"):
                w.llm_budget(wrong)  # pyright: ignore[reportArgumentType]
        w.llm_budget(0.01)
        await w.llm_call("x", model=priced("y", usage=usd(50)), max_tokens=8)
        with pytest.raises(w.BudgetExceeded, match=r"of the limit of \$0.01, \$0.05 are spent"):
            await w.llm_call("x", model=priced("y", usage=usd(50)), max_tokens=8)


async def test_compaction_can_be_switched_off_over_a_threshold():
    agent = w.Agent(scripted("a", "b"), compact_threshold=10, compact_keep_last=2)
    assert (await agent.run("go " * 100, compaction=False)).status == "done"
    assert (await agent.with_(compaction="none").run("go " * 100)).status == "done"
    with pytest.raises(w.ConfigError, match="compaction is off"):
        await w.Agent(scripted("x"), compact_threshold=10, compaction=False).run("go")


async def test_follow_up_that_no_turn_could_take_is_deferred():
    for turns, deferred in ((1, ["and this"]), (2, ["and this"]), (3, [])):
        session = f"s{turns}"

        @w.tool
        async def note() -> str:
            """Post a follow-up."""
            await w.agent_session_post(session, "follow_up", "and this")  # noqa: B023
            return "noted"

        model = scripted(call("note"), "bye", "again")
        out = await w.agent_loop(
            "go", model=model, tools=[note], session_id=session, max_iterations=turns
        )
        assert out.deferred_user_messages == deferred, turns


# --------------------------------------------------------------------------- prompts and results


async def test_loop_until_done_tells_the_model_to_keep_working():
    for tools, options in (([add], {}), ([], {}), ([add], {"tool_format": "text"})):
        end = "Done. <done>##DONE##</done>" if options else "Done. ##DONE##"
        model = scripted(call("add", a=1, b=1), end) if tools and not options else scripted(end)
        await w.agent_loop(
            "go", "You add.", model=model, tools=tools, loop_until_done=True, **options
        )
        system = model.requests[0].system or ""
        assert system.startswith("You add.\n\nKeep working until the task is complete")
        own = {
            "agent.loop_contract": {"text": "Go on till {sentinel}." if "##" in system else "Go."}
        }
        model = scripted(end)
        await w.agent_loop(
            "go", model=model, tools=tools, loop_until_done=True, prompts=own, **options
        )
        assert "Keep working" not in (model.requests[0].system or "")
        assert "Go" in (model.requests[0].system or "")
    model = scripted("x")
    await w.agent_loop("go", "You add.", model=model, tools=[add])
    assert model.requests[0].system == "You add."


async def test_results_are_subscriptable():
    out = await w.agent_loop(
        "go",
        model=scripted(call("add", a=1, b=1), "two"),
        tools=[add],
        iteration_budget={"mode": "adaptive", "initial": 1, "max": 3},
    )
    assert out["llm"]["iterations"] == out.llm["iterations"] == out.llm.iterations == 2
    assert out.tools["calls"] == out["tools"]["calls"] == ["add"]
    assert out.adaptive_budget.extensions_used == out["adaptive_budget"]["extensions_used"] == 1
    assert [decision.action for decision in out.adaptive_budget.decisions] == ["extend"]
    assert out.task_ledger.deliverables == out["task_ledger"]["deliverables"] == []
    reply = await w.llm_call("x", model=scripted("y"))
    assert (reply["text"], reply["data"], reply["stop_reason"]) == ("y", None, "end_turn")
    with pytest.raises(KeyError, match="did you mean 'text'"):
        reply["txt"]
    with pytest.raises(KeyError):
        out["_run"]


async def test_duration_is_wall_time():
    @w.tool
    async def slow() -> str:
        """Take a moment."""
        await asyncio.sleep(0.02)
        return "x"

    out = await w.agent_loop("go", model=scripted(call("slow"), "ok"), tools=[slow])
    assert out.llm.duration_ms >= 20


async def test_visible_text_and_private_reasoning_of_a_reply():
    message = w.Message("assistant", (w.Thinking("hm"), w.Text("Yes.")))
    reply = await w.llm_call("x", model=scripted(message))
    assert (reply.visible_text, reply.thinking, reply.private_reasoning) == ("Yes.", "hm", "hm")
    reply = await w.llm_call("x", model=scripted("<think>secret</think>\nYes."))
    assert (reply.visible_text, reply.private_reasoning) == ("Yes.", "secret")
    quoted = "Write `<think>` first.\n<tool_call>\n{}\n</tool_call>"
    reply = await w.llm_call("x", model=scripted(quoted))
    assert (reply.visible_text, reply.private_reasoning) == ("Write `<think>` first.", "")
    assert reply.text == quoted


async def test_stream_carries_the_tool_trace_if_asked():
    async with w.Runtime(store="memory:", tools=[add], environ={}) as scope:
        for asked in (True, False):
            model = scripted(call("add", a=1, b=2), "three")
            stream = scope.models.generate_stream("x", model=model, include_tool_trace=asked)
            *others, last = [chunk async for chunk in stream]
            assert all(chunk.trace is None for chunk in others)
            kinds = [entry.type for entry in last.trace or ()]
            assert kinds == (
                ["assistant", "tool_call", "tool_result", "assistant"] if asked else []
            )


async def test_transcript_has_plans_and_archives():
    plan = [{"content": "Dig", "status": "completed"}, {"content": "Fill", "status": "pending"}]
    model = scripted(call("agent_progress", message="Half.", entries=plan), "done")
    out = await w.agent_loop("go", model=model, progress_tool=True, session_id="s")
    [event] = [e for e in out.transcript["events"] if e["kind"] == "plan"]
    assert event["text"] == "completed: Dig\npending: Fill" and event["entries"] == plan
    assert "transcript_archive" not in {e["kind"] for e in out.transcript["events"]}
    await w.agent_session_trim("s", 1)
    out = await w.agent_loop("go on", model=scripted("done"), session_id="s")
    events = out.transcript["events"]
    assert "transcript_archive" in {e["kind"] for e in events}


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "options",
    [
        {"require_successful_tools": ["ad"]},
        {"require_successful_tools": [["add", "ad"]]},
        {"stop_after_successful_tools": ["ad"]},
        {"stall_diagnostics": {"exempt_tools": ["ad"]}},
        {"tool_surface_narrowing": {"hard_keep": ["ad"]}},
        {"tool_search": {"always_loaded": ["ad"]}},
        {"tool_choice": {"name": "ad"}},
    ],
    ids=str,
)
async def test_misspelt_tools_are_errors(options: dict[str, Any]):
    model = scripted("x")
    with pytest.raises(w.ConfigError, match="names 'ad', which no tool is; did you mean 'add'"):
        await w.agent_loop("go", model=model, tools=[add], **options)
    assert not model.requests


async def test_tools_that_a_policy_brings_may_be_named():
    class Brings(w.Policy[None]):
        async def start(self, run: Any) -> Any:
            return [add]

    model = scripted(call("add", a=1, b=1), "two")
    out = await w.agent_loop(
        "go", model=model, policies=[Brings()], require_successful_tools=["add"]
    )
    assert out.status == "done"


@pytest.mark.parametrize("name", ["before_tol", "after_tools", "befor_turn", "on_model_eror"])
def test_misspelt_moment_of_a_policy_is_an_error(name: str):
    async def moment(self: Any, run: Any) -> None: ...

    with pytest.raises(w.ConfigError, match=f"no moment '{name}'; did you mean"):
        type("Mine", (w.Policy,), {name: moment})
    type("Mine", (w.Policy,), {"ask_the_boss": moment, "before_tool": moment, f"_{name}": moment})


@pytest.mark.parametrize(
    "provider",
    "anthropic openai openai-responses openrouter ollama huggingface together groq deepseek fireworks"
    " mistral gemini vertex bedrock llamacpp mock".split(),
)
def test_small_model_of_every_provider(provider: str):
    for tier in ("small", "mid", "frontier"):
        assert resolve(provider=provider, tier=tier, environ={}).name
    with pytest.raises(w.ConfigError, match=r"set \[llm.tiers.azure\] small"):
        resolve(provider="azure", tier="small", environ={})
