"""Whole runs through callers: every promise of a journal, streams that begin anew, cancelling anywhere."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

import windlass as w
from tests.callers.helpers import Shaky
from tests.stories.helpers import kept
from windlass.callers import with_rate_limit
from windlass.events import Replied, RunEnded, RunStarted, StreamRestarted
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing import call, cancel_sweep, run_virtual, scripted
from windlass.testing.cancel import Trial


@w.tool(side_effect_level="read_only")
async def look(n: int) -> int:
    """Look."""
    await asyncio.sleep(0.005)
    return n


@w.tool
async def send(n: int) -> int:
    """Send."""
    await asyncio.sleep(0.01)
    return n


def every_layer(**others: Any) -> Any:
    """All of them at once."""
    return w.compose(
        [
            w.with_logging(lambda record: None),
            w.with_retry(max_attempts=3, backoff_ms=10),
            w.with_cache(),
            w.with_budget(tokens=1_000_000),
            w.with_fallback(others.get("fallback") or scripted(then="fallback")),
            w.with_escalation(
                others.get("frontier") or scripted(then="wise"), predicate=lambda call: False
            ),
            w.with_shadow(others.get("shadow") or scripted(then="shadow"), wait=1),
            w.with_circuit_breaker(),
            with_rate_limit(requests_per_minute=1000),
        ]
    )(w.default_llm_caller())


async def test_a_run_through_every_layer_keeps_every_promise():
    shadow = scripted(then="shadow")
    model = scripted(
        ["Looking.", call("look", n=1)], [call("look", n=2), call("send", n=3)], "done"
    )
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[look, send],
        llm_caller=every_layer(shadow=shadow),
        max_concurrent_tools=4,
    )
    assert (out.status, out.final_text, out.llm.iterations) == ("done", "done", 3)
    assert out.tools.successful == ["look", "send"]
    assert len(shadow.requests) == 3 and out.usage.input_tokens == 60
    both = zip(shadow.requests, model.requests, strict=True)
    await kept(out, SimpleNamespace(requests=[request for pair in both for request in pair]))


async def test_a_session_goes_on_with_another_caller_and_with_none():
    model = scripted("one", "two", "three")
    for caller in (w.with_shadow(scripted(then="x")), None, w.with_cache()):
        out = await w.agent_loop("go on", model=model, session_id="s", llm_caller=caller)
        assert out.status == "done"
    assert len(model.requests[-1].messages) == 5
    await kept(out)


async def test_a_parked_run_goes_on_through_its_caller():
    host = w.Tool(
        name="ask",
        description="Ask.",
        parameters={"type": "object", "properties": {}},
        handler=None,
    )
    agent = w.Agent(
        scripted(call("ask"), "thanks"), tools=[host], llm_caller=w.with_shadow(scripted(then="s"))
    )
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    out = await agent.resume("s", results={out.pending[0].id: "yes"})
    assert (out.status, out.output, out.usage.input_tokens) == ("done", "thanks", 40)


@pytest.mark.parametrize("layer", ["retry", "fallback", "rate_limit", "escalation"])
def test_a_stream_that_begins_anew_says_so(layer: str):
    async def main() -> None:
        broken: Any = w.RateLimited("x") if layer == "rate_limit" else w.StreamBroken("x")
        model = Shaky("weak" if layer == "escalation" else broken, "whole")
        caller = {
            "retry": w.with_retry(),
            "fallback": w.with_fallback(Shaky("whole")),
            "rate_limit": with_rate_limit(),
            "escalation": w.with_escalation(Shaky("whole"), on_reply=lambda r: r.text == "weak"),
        }[layer]
        async with w.Agent(model, llm_caller=caller).stream("go") as run:
            events = [event async for event in run]
        places = [n for n, event in enumerate(events) if isinstance(event, StreamRestarted)]
        assert len(places) == 1
        after = [event.text for event in events[places[0] :] if isinstance(event, w.TextDelta)]
        assert after == ["half", "whole"]
        model = Shaky("weak" if layer == "escalation" else broken, "whole")
        with pytest.raises(w.StreamBroken, match="broke off"):
            async for _chunk in w.llm_stream("go", model=model, llm_caller=caller):
                pass
        assert len(asyncio.all_tasks()) == 1

    run_virtual(main())


def test_a_run_s_budget_sees_what_callers_spend_beside():
    async def main() -> Any:
        model, shadow = Shaky(), Shaky(name="shadow")
        out = await w.agent_loop(
            "go",
            model=model,
            llm_caller=w.with_shadow(shadow),
            loop_until_done=True,
            token_budget=500,
            max_tokens=20,
            await_resumption=False,
        )
        return out, model.calls, shadow.calls

    out, calls, shadows = run_virtual(main())
    # 220 a turn, not 110: there is no room for a third
    assert (out.status, calls, shadows) == ("budget_exhausted", 2, 2)
    replies = [e for e in out.entries if isinstance(e, Replied)]
    assert sum(e.usage.total_tokens for e in replies) == out.usage.total_tokens == 440


def test_cancelled_anywhere_nothing_is_left():
    async def run(trial: Trial) -> Any:
        abort = trial.notes.setdefault("abort", w.Abort())
        slow = {"delay": 0.01, "stream": True}
        model = scripted(
            w.Overloaded("x"),
            [call("look", n=1), call("send", n=2)],
            w.RateLimited("x", retry_after=0.02),
            "done",
            **slow,
        )
        caller = every_layer(
            shadow=scripted(then="shadow", delay=0.03),
            fallback=scripted(w.Overloaded("y"), then="z", **slow),
        )
        async with w.Runtime() as runtime:
            trial.notes["runtime"] = runtime
            return await w.Agent(model, tools=[look, send], llm_caller=caller).run(
                "go", session_id="s", abort=abort
            )

    async def check(trial: Trial) -> list[str]:
        runtime = trial.notes.get("runtime")
        if runtime is None or not await runtime.memory.sessions():
            return []
        entries = await runtime.memory.read("s")
        problems = audit([*messages_of(entries), w.Message("user", "?")])
        if any(isinstance(e, RunStarted) for e in entries) and not isinstance(
            entries[-1], RunEnded
        ):
            problems = [*problems, f"the journal ends in {entries[-1]!r:.60}"]
        return list(problems)

    report = cancel_sweep(
        run,
        check=check,
        modes=("cancel", "abort", "timeout"),
        abort=lambda trial: trial.notes.setdefault("abort", w.Abort()).abort("x"),
        every=3,
    )
    report.assert_ok()
