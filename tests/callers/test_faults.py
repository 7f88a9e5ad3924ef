"""Each layer against faults: retry, fallback, breaker, budget, escalation, shadow, logging."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import windlass as w
from tests.callers.helpers import (
    USAGE,
    Shaky,
    asked,
    kinds,
)
from windlass import errors, seams
from windlass.callers import Comparison
from windlass.events import Replied, StreamRestarted
from windlass.testing import call, run_virtual, scripted

TRANSIENT = [
    errors.RateLimited,
    errors.Overloaded,
    errors.ServerError,
    errors.Timeout,
    errors.ConnectionFailed,
    errors.StreamBroken,
    errors.BadReply,
]
FINAL = [
    errors.AuthFailed,
    errors.BadRequest,
    errors.ContextOverflow,
    errors.QuotaExceeded,
    errors.Refused,
]


# --------------------------------------------------------------------------- retry


@pytest.mark.parametrize("kind", TRANSIENT + FINAL)
def test_only_what_may_pass_is_tried_again(kind: Any):
    model = Shaky(kind("x"))
    if kind in TRANSIENT:
        assert run_virtual(asked(w.with_retry()(model))).text == "ok"
        assert model.calls == 2
    else:
        with pytest.raises(kind):
            run_virtual(asked(w.with_retry()(model)))
        assert model.calls == 1


def test_the_provider_is_believed_when_it_says_when_to_come_back():
    model = Shaky(w.RateLimited("x", retry_after=17.0), w.RateLimited("x", retry_after=3.0))
    run_virtual(asked(w.with_retry()(model)))
    assert [round(b - a) for a, b in zip(model.asked_at, model.asked_at[1:], strict=False)] == [
        17,
        3,
    ]
    model = Shaky(w.RateLimited("x", retry_after=17.0))
    with pytest.raises(w.RateLimited):  # longer than we care to wait
        run_virtual(asked(w.with_retry(max_backoff_ms=10_000)(model)))


@pytest.mark.parametrize(
    ("backoff", "longest"),
    [
        ("exponential", [1, 2, 4, 8]),
        ("linear", [1, 2, 3, 4]),
        ("constant", [1, 1, 1, 1]),
        ("none", [0] * 4),
    ],
)
def test_waits_grow_as_told(backoff: Any, longest: list[int]):
    model = Shaky(*[w.Overloaded("x")] * 4)
    retry = w.with_retry(max_attempts=5, backoff=backoff, backoff_ms=1000)
    run_virtual(asked(retry(model)))
    waits = [b - a for a, b in zip(model.asked_at, model.asked_at[1:], strict=False)]
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True)), waits


def test_on_names_what_is_tried_again():
    model = Shaky(w.AuthFailed("x"))
    assert run_virtual(asked(w.with_retry(on=["auth"])(model))).text == "ok"
    with pytest.raises(w.Overloaded):
        run_virtual(asked(w.with_retry(on=["auth"])(Shaky(w.Overloaded("x")))))


# --------------------------------------------------------------------------- fallback


def test_fallbacks_are_asked_in_order():
    first, second, third = (
        Shaky(w.Overloaded("1"), name="a"),
        Shaky(w.AuthFailed("2"), name="b"),
        Shaky("third", name="c"),
    )
    events: list[Any] = []
    reply = run_virtual(asked(w.with_fallback([second, third])(first), events.append))
    assert (reply.text, reply.model, reply.via) == ("third", "c", "fallback")
    assert (first.calls, second.calls, third.calls) == (1, 1, 1)
    # what the first two had shown is taken back
    assert kinds(events) == ["TextDelta", "StreamRestarted"] * 2 + ["TextDelta"] * 2


@pytest.mark.parametrize("kind", TRANSIENT + FINAL)
async def test_a_request_that_is_wrong_is_wrong_for_everybody(kind: Any):
    second = Shaky("second")
    model = w.with_fallback(second)(Shaky(kind("x")))
    if issubclass(kind, errors.BadRequest):
        with pytest.raises(kind):
            await asked(model)
        assert second.calls == 0
    else:
        assert (await asked(model)).text == "second"


async def test_on_names_what_falls_through():
    second = Shaky("second")
    layer = w.with_fallback(second, on=["context_overflow"])
    assert (await asked(layer(Shaky(w.ContextOverflow("x"))))).text == "second"
    with pytest.raises(w.Overloaded):
        await asked(layer(Shaky(w.Overloaded("x"))))


async def test_where_nobody_answers_the_error_may_pass_if_one_may():
    model = w.with_fallback(Shaky(w.AuthFailed("no key"), name="b"))(Shaky(w.Overloaded("busy")))
    with pytest.raises(w.Overloaded) as caught:
        await asked(model)
    assert caught.value.__notes__ == ["p:n: busy; p:b: no key"]
    with pytest.raises(w.QuotaExceeded):
        await asked(w.with_fallback(Shaky(w.QuotaExceeded("x")))(Shaky(w.AuthFailed("x"))))


async def test_a_first_that_answers_is_left_alone():
    second = Shaky("second")
    reply = await asked(w.with_fallback(second)(Shaky("first")))
    assert (reply.text, reply.via, second.calls) == ("first", None, 0)


async def test_a_status_that_a_caller_named_is_the_end():
    second = scripted("second")

    def ends(asked: Any) -> Any:
        return {"ok": False, "status": "enough", "error": {"category": "overloaded"}}

    caller = w.compose([w.with_retry(), w.with_fallback(second)])(ends)
    assert (await w.agent_loop("go", model=scripted(), llm_caller=caller)).status == "enough"
    assert not second.requests


async def test_the_record_says_who_answered_and_at_whose_price():
    first, second = Shaky(w.Overloaded("x")), Shaky("hi", name="dear")
    second.provider = "other"
    second.price = lambda usage: 5.0 if usage.cost_usd is None else usage.cost_usd  # type: ignore[method-assign]
    out = await w.agent_loop("go", model=first, llm_caller=w.with_fallback(second))
    reply = next(e for e in out.entries if isinstance(e, Replied))
    assert (reply.provider, reply.model, reply.via, reply.cost_usd) == (
        "other",
        "dear",
        "fallback",
        5.0,
    )
    assert (
        await w.llm_call("go", model=Shaky(w.Overloaded("x")), llm_caller=w.with_fallback(second))
    ).cost_usd == 5.0


async def test_a_fallback_without_native_tools_is_taught_them():
    @w.tool(side_effect_level="none")
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    plain = scripted(
        '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>', native_tools=False
    )
    model = scripted(w.Overloaded("x"), "3")
    out = await w.agent_loop("go", model=model, tools=[add], llm_caller=w.with_fallback(plain))
    assert (out.final_text, out.tools.successful) == ("3", ["add"])
    assert not plain.requests[0].tools and "add" in (plain.requests[0].system or "")


async def test_a_fallback_without_its_key_is_refused_before_any_call(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="OPENAI_API_KEY"):
        await w.agent_loop("go", model=model, llm_caller=w.with_fallback("openai:gpt-4o"))
    assert not model.requests


async def test_reads_that_started_early_do_not_survive_a_fallback():
    reads: list[str] = []
    ended: list[str] = []

    @w.tool(side_effect_level="none")
    async def look(at: str) -> str:
        """Look."""
        reads.append(at)
        try:
            await asyncio.sleep(0.005)
        finally:
            ended.append(at)
        return f"saw {at}"

    class Breaks(w.Model):
        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            emit(w.ToolCallReady(w.ToolCall("c1", "look", {"at": "old"})))
            await asyncio.sleep(0.001)  # it has begun
            raise w.StreamBroken("gone")

    second = scripted(call("look", at="new"), "done")
    out = await w.agent_loop(
        "go", model=Breaks(), tools=[look], llm_caller=w.with_fallback([second]), max_iterations=3
    )
    assert reads == ["old", "new", "old"] and sorted(ended) == sorted(reads)
    assert "saw old" not in str(out.transcript) and "saw new" in str(out.transcript)


# --------------------------------------------------------------------------- circuit breaker


def test_a_circuit_opens_looks_again_and_closes():
    async def main() -> None:
        model = Shaky(*[w.ServerError("x")] * 4)
        breaker = w.with_circuit_breaker(failure_threshold=3, reset_after=30)

        async def ask() -> str:
            try:
                return (await asked(breaker(model))).text  # a new wrapper each time, as in each run
            except w.ModelError as error:
                return type(error).__name__

        assert [await ask() for _ in range(5)] == ["ServerError"] * 3 + ["CircuitOpen"] * 2
        assert model.calls == 3
        await seams.sleep(29)
        assert await ask() == "CircuitOpen"
        await seams.sleep(1.5)
        assert await ask() == "ServerError"  # the probe fails: the wait begins anew
        assert await ask() == "CircuitOpen" and model.calls == 4
        await seams.sleep(31)
        assert [await ask() for _ in range(3)] == ["ok"] * 3

    run_virtual(main())


def test_half_open_lets_one_call_through():
    async def main() -> None:
        model = Shaky(w.ServerError("x"))
        guarded = w.with_circuit_breaker(failure_threshold=1, reset_after=10)(model)
        with pytest.raises(w.ServerError):
            await asked(guarded)
        await seams.sleep(11)
        model.delay = 5
        answers = await asyncio.gather(*[asked(guarded) for _ in range(20)], return_exceptions=True)
        assert [type(a).__name__ for a in answers].count("CircuitOpen") == 19 and model.calls == 2
        assert (await asked(guarded)).text == "ok"

    run_virtual(main())


def test_a_probe_that_is_cancelled_leaves_the_way_to_the_next():
    async def main() -> None:
        model = Shaky(w.ServerError("x"))
        guarded = w.with_circuit_breaker(failure_threshold=1, reset_after=10)(model)
        with pytest.raises(w.ServerError):
            await asked(guarded)
        await seams.sleep(11)
        model.delay = 5
        probe = asyncio.ensure_future(asked(guarded))
        await asyncio.sleep(1)
        probe.cancel()
        await asyncio.wait({probe})
        assert (await asked(guarded)).text == "ok"

    run_virtual(main())


async def test_patience_is_no_sickness_and_a_success_forgets():
    model = Shaky(
        w.RateLimited("x"), w.ServerError("x"), w.RateLimited("x"), "ok", w.ServerError("x")
    )
    guarded = w.with_circuit_breaker(failure_threshold=2)(model)
    for _ in range(5):
        with suppress(w.RateLimited, w.ServerError):
            await asked(guarded)
    assert (await asked(guarded)).text == "ok"


async def test_an_open_circuit_falls_through_and_each_model_has_its_own():
    layer = w.with_circuit_breaker(failure_threshold=1)
    sick, well = Shaky(*[w.ServerError("x")] * 9, name="sick"), Shaky("a", "b", name="well")
    model = w.with_fallback(layer(well))(layer(sick))
    assert [(await asked(model)).text for _ in range(2)] == ["a", "b"] and sick.calls == 1


# --------------------------------------------------------------------------- budget


async def test_a_budget_refuses_before_spending():
    model = Shaky()
    layer = w.with_budget(tokens=230)  # two calls of 110, and not a third
    for _ in range(2):
        out = await w.agent_loop("go", model=model, llm_caller=layer, await_resumption=False)
        assert out.status == "done"
    assert layer.used_tokens == 220
    out = await w.agent_loop("go " * 200, model=model, llm_caller=layer, await_resumption=False)
    assert (out.status, out.stop_reason, model.calls) == ("budget_exhausted", "tokens", 2)
    assert [
        kind
        for kind in (type(e).__name__ for e in out.entries)
        if "Budget" in kind or "Fail" in kind
    ] == ["BudgetExhausted"]
    with pytest.raises(w.BudgetExceeded, match="tokens"):
        await w.llm_call("go " * 200, model=model, llm_caller=layer)
    assert (model.calls, layer.used_tokens, layer.made) == (2, 220, 2)


async def test_a_budget_in_dollars_and_calls():
    layer = w.with_budget({"usd": 0.2})
    model = Shaky()
    options: dict[str, Any] = {"model": model, "llm_caller": layer, "await_resumption": False}
    statuses = [(await w.agent_loop("go", **options)).status for _ in range(3)]
    assert statuses == [
        "done",
        "done",
        "budget_exhausted",
    ]  # 0.11 each: the second ends a little over
    assert model.calls == 2 and layer.used_usd == pytest.approx(0.22)
    model = Shaky()
    layer = w.with_budget(calls=1)
    statuses = [(await w.agent_loop("go", model=model, llm_caller=layer)).status for _ in range(2)]
    assert (statuses, model.calls) == (["done", "budget_exhausted"], 1)


def test_calls_side_by_side_hold_back_what_they_will_take():
    async def main() -> None:
        model = Shaky(delay=1)
        layer = w.with_budget(tokens=100)
        long = w.Request([w.Message("user", "x" * 200)])  # some 60 tokens
        asks = [layer(model).respond(long, lambda event: None) for _ in range(5)]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert [isinstance(a, w.BudgetExceeded) for a in answers] == [False] + [True] * 4
        assert model.calls == 1

    run_virtual(main())


async def test_a_failed_call_gives_back_what_it_held():
    model = Shaky(*[w.AuthFailed("x")] * 5)
    layer = w.with_budget(tokens=100)
    for _ in range(5):
        with pytest.raises(w.AuthFailed):
            await asked(layer(model))
    assert (await asked(layer(model))).text == "ok"


# --------------------------------------------------------------------------- escalation


async def test_escalation_by_call_and_by_reply():
    cheap, dear = Shaky("a", "not sure", name="cheap"), Shaky("wise", "wise", name="dear")
    by_call = w.with_escalation(dear, predicate=lambda asked: asked.prompt == "hard")
    assert (await w.llm_call("easy", model=cheap, llm_caller=by_call)).text == "a"
    reply = await w.llm_call("hard", model=cheap, llm_caller=by_call)
    assert (reply.text, reply.model, reply.via, cheap.calls) == ("wise", "dear", "escalation", 1)

    async def unsure(reply: w.Response) -> bool:
        return "not sure" in reply.text

    events: list[Any] = []
    by_reply = w.with_escalation(dear, on_reply=unsure)
    out = await w.agent_loop("go", model=cheap, llm_caller=by_reply, on_event=events.append)
    assert (out.final_text, len([e for e in events if isinstance(e, StreamRestarted)])) == (
        "wise",
        1,
    )
    replies = [e for e in out.entries if isinstance(e, Replied)]
    assert [(r.purpose, r.model) for r in replies] == [("escalated", "cheap"), (None, "dear")]
    assert out.llm.input_tokens == 200 and out.to_dict()["llm"]["iterations"] == 1


async def test_a_reply_that_did_not_suffice_counts_in_a_run_s_budget():
    cheap, dear = Shaky(name="cheap"), Shaky(name="dear")
    layer = w.with_escalation(dear, on_reply=lambda reply: True)
    out = await w.agent_loop(
        "go",
        model=cheap,
        llm_caller=layer,
        loop_until_done=True,
        token_budget=400,
        max_tokens=50,
        await_resumption=False,
    )
    assert out.status == "budget_exhausted" and cheap.calls == dear.calls == 2  # 220 a turn


# --------------------------------------------------------------------------- shadow


def test_a_shadow_is_asked_beside_counted_and_changes_nothing():
    seen: list[Comparison] = []

    async def main() -> Any:
        model, other = Shaky("mine", delay=2), Shaky("other", name="shadow", delay=4)
        layer = w.with_shadow(other, on_result=seen.append)
        began = seams.monotonic()
        out = await w.agent_loop("go", model=model, llm_caller=layer)
        return out, seams.monotonic() - began

    out, took = run_virtual(main())
    assert (out.final_text, round(took)) == ("mine", 4)  # side by side
    assert (seen[0].reply.text, seen[0].shadow.text, seen[0].error) == ("mine", "other", None)
    replies = [e for e in out.entries if isinstance(e, Replied)]
    assert [(r.purpose, r.model, r.message.text) for r in replies] == [
        ("shadow", "shadow", "other"),
        (None, "n", "mine"),
    ]
    assert out.llm.input_tokens == 200 and out.cost_usd == pytest.approx(0.22)


def test_a_slow_shadow_is_cancelled_and_gone():
    async def main() -> Any:
        model, other = Shaky("mine", delay=2), Shaky("other", delay=1000)
        seen: list[Comparison] = []
        began = seams.monotonic()
        out = await w.agent_loop(
            "go", model=model, llm_caller=w.with_shadow(other, wait=3, on_result=seen.append)
        )
        assert len(asyncio.all_tasks()) == 1 and other.under_way == 0
        assert isinstance(seen[0].error, TimeoutError)
        return out.final_text, seams.monotonic() - began

    text, took = run_virtual(main())
    assert (text, round(took)) == ("mine", 5)


def test_a_run_that_is_cancelled_takes_its_shadow_along():
    async def main() -> None:
        model, other = Shaky(delay=100), Shaky(delay=1000)
        abort = w.Abort()
        running = asyncio.ensure_future(
            w.agent_loop("go", model=model, llm_caller=w.with_shadow(other), abort=abort)
        )
        await asyncio.sleep(1)
        assert (model.under_way, other.under_way) == (1, 1)
        abort.abort("enough")
        assert (await running).status == "cancelled"
        assert (model.under_way, other.under_way, len(asyncio.all_tasks())) == (0, 0, 1)

    run_virtual(main())


@pytest.mark.parametrize("failing", ["model", "shadow", "both"])
def test_errors_of_a_shadow_harm_nobody(failing: str):
    async def main() -> None:
        model = Shaky(*([w.AuthFailed("mine")] if failing != "shadow" else []), delay=1)
        other = Shaky(*([w.AuthFailed("other")] if failing != "model" else []), delay=1)

        def boom(comparison: Comparison) -> None:
            raise ValueError("a bad callback")

        layer = w.with_shadow(other, on_result=boom)
        if failing == "shadow":
            assert (await asked(layer(model))).asides == ()
        else:
            with pytest.raises(w.AuthFailed, match="mine"):
                await asked(layer(model))
        assert len(asyncio.all_tasks()) == 1

    run_virtual(main())


async def test_a_sample_of_calls_has_a_shadow():
    other = Shaky()
    model = w.with_shadow(other, sample=0.5)(Shaky())
    for _ in range(100):
        await asked(model)
    assert 20 < other.calls < 80
    never = Shaky()
    await asked(w.with_shadow(never, sample=0)(Shaky()))
    assert never.calls == 0


# --------------------------------------------------------------------------- logging


async def test_every_call_is_told_without_its_words():
    records: list[dict[str, Any]] = []
    model = Shaky(w.Overloaded("busy"), "the secret is out")
    caller = w.compose([w.with_retry(backoff="none"), w.with_logging(records.append)])
    await w.agent_loop("my secret", model=model, llm_caller=caller, session_id="s")
    assert [(r["ok"], r["attempt"], r["iteration"], r["session_id"]) for r in records] == [
        (False, 1, 1, "s"),
        (True, 2, 1, "s"),
    ]
    assert (records[0]["category"], records[0]["kind"]) == ("overloaded", "Overloaded")
    assert records[1]["input_tokens"] == USAGE.input_tokens and records[1]["cost_usd"] == 0.11
    assert records[1]["duration_ms"] >= 0 and "secret" not in str(records)


async def test_a_sink_may_be_async_and_may_fail(caplog: pytest.LogCaptureFixture):
    told: list[Any] = []

    async def slow(record: Any) -> None:
        await asyncio.sleep(0)
        told.append(record)
        raise ValueError("no disk")

    assert (await asked(w.with_logging(slow)(Shaky()))).text == "ok"
    assert len(told) == 1 and "sink of with_logging" in caplog.text


async def test_without_a_sink_the_logger_is_told(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "windlass")
    await asked(w.with_logging()(Shaky()))
    assert "model call: provider=p model=n" in caplog.text
