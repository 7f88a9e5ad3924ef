"""Functions around tool calls, and all that stands around them at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept, results
from tests.stories.tool_helpers import (
    both,
    decisions,
    flaky,
    look,
)
from windlass.events import ToolIntended
from windlass.testing import call, run_virtual, scripted

# --------------------------------------------------------------------------- functions of one's own


async def test_a_function_of_a_call_runs_it_looks_at_it_or_answers_in_its_place():
    seen: list[Any] = []

    async def caller(asked: Any, next: Any) -> Any:
        seen.append((asked.name, asked.id, asked.attempt))
        if asked.name == "write":
            return {"instead": True}
        result = await next(asked)
        return w.ToolResult(content=result.text.upper())

    out = await both(tool_caller=caller)
    assert [name for name, _, _ in seen] == ["look", "write"]
    assert results(out) == {"look": ("ok", "CONTENTS OF A"), "write": ("ok", '{"instead":true}')}


async def test_a_function_may_ask_the_default_caller():
    async def caller(asked: Any) -> Any:
        return await w.default_tool_caller()(asked)

    assert results(await both(tool_caller=caller))["write"] == ("ok", "wrote b")
    assert results(await both(tool_caller=lambda asked, next: next(asked)))["look"][0] == "ok"


async def test_what_a_tool_caller_raises_is_an_error_result():
    async def caller(asked: Any) -> Any:
        raise LookupError("no line")

    out = await both(tool_caller=caller)
    assert results(out)["look"] == ("error", "LookupError: no line")


async def test_a_tool_caller_runs_a_call_as_it_was_decided():
    async def caller(asked: Any, next: Any) -> Any:
        return await next({**asked, "arguments": {"path": "/etc/passwd"}})

    out = await both(tool_caller=caller)
    outcome, words = results(out)["look"]
    assert outcome == "error" and "as it was decided" in words

    async def sly(asked: Any, next: Any) -> Any:
        asked.arguments["path"] = "/etc/passwd"
        return await next(asked)

    assert results(await both(tool_caller=sly))["look"][0] == "error"


async def test_cancelling_passes_through_a_tool_caller():
    started = asyncio.Event()

    @w.tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(3600)
        return "never"

    async def caller(asked: Any, next: Any) -> Any:
        return await next(asked)

    abort = w.Abort()
    run = asyncio.ensure_future(
        w.agent_loop(
            "go", model=scripted(call("wait"), "x"), tools=[wait], tool_caller=caller, abort=abort
        )
    )
    await started.wait()
    abort.abort("enough")
    out = await run
    assert (out.status, results(out)["wait"][0]) == ("cancelled", "interrupted")


async def test_layers_are_composed_from_the_outside_in():
    order: list[str] = []

    def layer(name: str) -> Any:
        def make(next: Any) -> Any:
            async def caller(asked: Any) -> Any:
                order.append(f"{name} in")
                result = await next(asked)
                order.append(f"{name} out")
                return result

            return caller

        return make

    caller = w.compose([layer("a"), w.with_consent(lambda asked: True), layer("b")])(
        w.default_tool_caller()
    )
    model = scripted(call("add", a=1, b=2), "ok")
    out = await w.agent_loop("go", model=model, tools=[add], tool_caller=caller)
    assert results(out)["add"] == ("ok", "3")
    assert order == ["a in", "b in", "b out", "a out"]
    assert decisions(out) == [("add", "allow", "Consent")]
    await kept(out, model)


async def test_a_layer_alone_is_a_caller_and_functions_alone_compose_too():
    denied = await both(tool_caller=w.with_consent(lambda asked: asked.kind == "read"))
    assert results(denied)["write"][0] == "denied"

    def shout(next: Any) -> Any:
        async def caller(asked: Any) -> Any:
            return (await next(asked)).text.upper()

        return caller

    for given in (w.compose([shout]), w.compose([shout])(w.default_tool_caller())):
        assert results(await both(tool_caller=given))["look"] == ("ok", "CONTENTS OF A")


async def test_a_dry_run_stands_around_a_function_and_a_retry_inside_it():
    ran: list[str] = []

    async def caller(asked: Any, next: Any) -> Any:
        ran.append(asked.name)
        return await next(asked)

    out = await both(tool_caller=caller, dry_run=True)
    assert ran == ["look"] and results(out)["write"][1].startswith("Dry run")
    tool, attempts = flaky(1)
    ran.clear()
    model = scripted(call("flaky"), "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[tool], tool_caller=caller, tool_retries=1, tool_backoff_ms=0
    )
    assert (ran, attempts, results(out)["flaky"][0]) == (["flaky"], [1, 2], "ok")


async def test_consent_as_an_option_and_in_the_caller_must_both_agree():
    caller = w.with_consent(lambda asked: asked.name != "write")(w.default_tool_caller())
    out = await both(consent=lambda asked: asked.name != "look", tool_caller=caller)
    assert [record.outcome for record in out.tool_calls] == ["denied", "denied"]
    assert decisions(out) == [("look", "deny", "Consent"), ("write", "deny", "Consent2")]


async def test_consent_hidden_in_a_function_is_not_skipped():
    inner = w.with_consent(lambda asked: True)(w.default_tool_caller())

    async def caller(asked: Any) -> Any:
        return await inner(asked)

    out = await both(tool_caller=caller)
    outcome, words = results(out)["write"]
    assert outcome == "error" and "compose([…, with_consent(…)])" in words


async def test_a_tool_caller_outside_a_run_says_so():
    with pytest.raises(w.ConfigError, match="inside a run"):
        await w.default_tool_caller()({"name": "x", "arguments": {}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: w.compose([w.with_consent(print), w.with_retry()]),
        lambda: w.compose([w.with_retry()])(w.default_tool_caller()),
        lambda: w.with_retry()(w.default_tool_caller()),
        lambda: w.with_consent(print)(w.default_llm_caller()),
        lambda: w.compose([lambda next: None])(w.default_tool_caller()),
        lambda: w.compose([w.default_tool_caller()]),
        lambda: w.with_consent("yes"),
        lambda: w.with_audit_sink(None),
        lambda: w.with_rate_limit(max_calls=-1),
        lambda: w.with_rate_limit(max_calls=True),
        lambda: w.with_rate_limit({"max_call": 3}),
        lambda: w.with_rate_limit(3),
        lambda: w.with_rate_limit(message=" "),
        lambda: w.with_dry_run(tools="write"),
        lambda: w.with_dry_run(tools=[3]),
        lambda: w.with_dry_run(answer=3),
        lambda: w.with_dry_run({"tool": []}),
    ],
)
def test_what_cannot_be_composed_is_refused(make: Any):
    with pytest.raises(w.ConfigError):
        make()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tool_caller", 3),
        ("tool_caller", w.default_llm_caller()),
        ("tool_caller", w.with_retry()),
        ("tool_caller", int),
        ("consent", True),
        ("rate_limit", 50),
        ("rate_limit", True),
        ("rate_limit", {"max_calls": "many"}),
        ("rate_limit", {"maxcalls": 1}),
        ("dry_run", "yes"),
        ("dry_run", {"tool": ["x"]}),
        ("audit_sink", 3),
        ("telemetry", 3),
        ("handoff_sink", "x"),
        ("tool_retries", -1),
        ("tool_retries", 1.5),
        ("tool_retries", True),
        ("tool_backoff_ms", -1),
        ("tool_backoff_ms", "1s"),
        ("prefetch_next_turn", 1),
    ],
)
async def test_an_impossible_value_is_refused_before_any_call(option: str, value: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=option):
        await w.agent_loop("go", None, {"model": model, option: value})
    with pytest.raises(w.ConfigError, match=option):
        w.Agent(model, **{option: value})
    assert not model.requests


# --------------------------------------------------------------------------- all of it at once


class Busy(w.Model):
    """Looks, charges and reports in every turn; answers by how many turns it has had."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        usage = w.Usage(10, 5)
        if turn >= 4:
            return w.Response(w.Message("assistant", "all done"), usage)
        calls = (
            w.ToolCall(f"l{turn}", "look", {"path": str(turn)}),
            w.ToolCall(f"c{turn}", "charge", {"n": turn}),
            w.ToolCall(f"p{turn}", "agent_progress", {"message": f"turn {turn}"}),
        )
        return w.Response(w.Message("assistant", calls), usage, "tool_use")


async def test_all_of_it_goes_on_from_every_entry():
    from tests.stories.helpers import written
    from windlass.engine.environment import current_store
    from windlass.loop.requests import requests_of

    def agent(width: int, receipts: list[Any]) -> w.Agent[Any, Any]:
        @w.tool(keyed=True)
        async def charge(ctx: w.ToolContext[None], n: int) -> str:
            """Charge a card; the first attempt always fails."""
            if ctx.attempt == 1:
                raise OSError("try later")
            return f"charged {n}"

        return w.Agent(
            Busy(),
            tools=[look, charge],
            consent=lambda asked: True,
            rate_limit={"max_calls": 8},
            tool_retries=2,
            tool_backoff_ms=0,
            audit_sink=receipts.append,
            progress_tool=True,
            tool_caller=lambda asked, next: next(asked),
            max_concurrent_tools=width,
        )

    store = current_store()
    for width in (1, 4):
        receipts: list[Any] = []
        name = f"whole-{width}"
        whole = await agent(width, receipts).run("go", session_id=name)
        assert [r.outcome for r in whole.tool_calls].count("denied") == 4 and len(receipts) == 12
        entries = list(await store.read(name))
        wanted = [(list(r.messages), r.frame) for r in requests_of(entries)]
        first = next(at for at, e in enumerate(entries) if type(e).__name__ == "IterationStart")
        for cut in range(first + 1, len(entries) - 1):
            await written(store, f"{name}-{cut}", entries[:cut])
            out = await agent(width, []).resume(f"{name}-{cut}")
            assert out.status == "done", (cut, out.error)
            again = requests_of(await store.read(f"{name}-{cut}"))
            assert [(list(r.messages), r.frame) for r in again] == wanted, entries[cut - 1]
            await kept(out)


async def test_runs_at_the_same_time_do_not_see_each_others_calls():
    async def caller(asked: Any, next: Any) -> Any:
        await asyncio.sleep(0)
        result = await next(asked)
        await asyncio.sleep(0)
        return f"{asked.arguments['a']}: {result.text}"

    def agent(n: int) -> Any:
        calls = [call("add", a=n, b=k) for k in range(5)]
        return w.Agent(scripted(calls, "ok"), tools=[add], tool_caller=caller).run("go")

    outs = await asyncio.gather(*[agent(n) for n in range(20)])
    for n, out in enumerate(outs):
        assert [record.result for record in out.tool_calls] == [f"{n}: {n + k}" for k in range(5)]


def test_calls_side_by_side_are_tried_again_each_for_itself():
    began: list[tuple[str, int, float]] = []

    @w.tool(side_effect_level="read_only")
    async def fetch(ctx: w.ToolContext[None], name: str, fails: int) -> str:
        """Fetch."""
        began.append((name, ctx.attempt, asyncio.get_running_loop().time() - 1000))
        await asyncio.sleep(0.1)
        if ctx.attempt <= fails:
            raise OSError("busy")
        return name

    async def main() -> Any:
        asked = [
            call("fetch", name="a", fails=2),
            call("fetch", name="b", fails=0),
            call("fetch", name="c", fails=1),
        ]
        model = scripted(asked, "ok")
        out = await w.Agent(model, tools=[fetch], tool_retries=2, eager_tools=False).run("go")
        await kept(out, model)
        return out

    out = run_virtual(main())
    assert [record.result for record in out.tool_calls] == ["a", "b", "c"]
    assert [(n, k, round(t, 1)) for n, k, t in began] == [
        ("a", 1, 0.0),
        ("b", 1, 0.0),
        ("c", 1, 0.0),
        ("a", 2, 1.1),
        ("c", 2, 1.1),
        ("a", 3, 3.2),
    ]
    attempts = [(e.call_id, e.attempt) for e in out.entries if type(e) is ToolIntended]
    assert sorted(a for _, a in attempts) == [1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("answer", [True, False, "ask"])
async def test_consent_is_asked_once_about_a_read_that_starts_while_the_model_writes(answer: Any):
    asked: list[str] = []

    def consent(about: Any) -> Any:
        asked.append(about.id)
        return answer

    model = scripted([call("look", path="a"), call("look", path="b")], "ok", stream=True)
    agent = w.Agent(model, tools=[look], consent=consent)
    out = await agent.run("go", session_id="s")
    if answer == "ask":
        assert out.status == "suspended" and len(out.pending) == 2
        out = await agent.resume("s", decisions={one.id: True for one in out.pending})
    assert out.status == "done" and len(asked) == len(set(asked)) == 2
    wanted = "denied" if answer is False else "ok"
    assert [record.outcome for record in out.tool_calls] == [wanted, wanted]
    await kept(out, model)
