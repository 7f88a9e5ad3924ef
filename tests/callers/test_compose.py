"""Callers put together: order, doors, options, and what is refused before any call."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import windlass as w
from tests.callers.helpers import Shaky, asked
from windlass import callers
from windlass.callers import Call, with_rate_limit
from windlass.models.base import RETRY_DELAY
from windlass.testing import run_virtual, scripted

DOORS = [n for n in callers.__all__ if n.startswith("with_")]


def middleware(name: str, order: list[str]) -> Any:
    def layer(inner: Any) -> Any:
        async def caller(call: Call) -> Any:
            order.append(name)
            return await inner(call)

        return caller

    return layer


@pytest.mark.parametrize("door", ["agent_loop", "Agent", "llm_call", "llm_stream"])
async def test_it_works_through_every_door(door: str):
    order: list[str] = []
    layers = [
        middleware("a", order),
        w.with_logging(lambda record: order.append("log")),
        middleware("b", order),
    ]
    caller, model = w.compose(layers)(w.default_llm_caller()), scripted("hi")
    match door:
        case "agent_loop":
            text = (await w.agent_loop("go", model=model, llm_caller=caller)).final_text
        case "Agent":
            text = (await w.Agent(model, llm_caller=caller).run("go")).output
        case "llm_call":
            text = (await w.llm_call("go", model=model, llm_caller=caller)).text
        case _:
            text = "".join(
                [str(c) async for c in w.llm_stream("go", model=model, llm_caller=caller)]
            )
    assert (text, order, len(model.requests)) == ("hi", ["a", "b", "log"], 1)


async def test_a_run_may_have_a_caller_of_its_own():
    agent, order = w.Agent(scripted("1", "2")), list[str]()
    await agent.run("go")
    await agent.run("go", llm_caller=w.compose([middleware("a", order)]))
    assert order == ["a"]


async def test_a_layer_around_a_model_is_a_model():
    model = w.compose([w.with_cache(), w.with_retry()])(scripted("once"))
    assert isinstance(model, w.Model) and (model.provider, model.name) == ("scripted", "scripted")
    assert [(await w.Agent(model).run("go")).output for _ in range(2)] == ["once", "once"]
    order: list[str] = []
    with_function = w.compose([middleware("a", order)])(scripted("x"))
    assert (await asked(with_function)).text == "x" and order == ["a"]


async def test_composed_layers_compose():
    order: list[str] = []
    inner = w.compose([middleware("b", order), middleware("c", order)])
    await w.llm_call(
        "go", model=scripted("x"), llm_caller=w.compose([middleware("a", order), inner])
    )
    assert order == ["a", "b", "c"]


async def test_nothing_around_is_the_plain_call():
    assert (
        await w.llm_call("go", model=scripted("x"), llm_caller=w.default_llm_caller())
    ).text == "x"
    assert (await w.llm_call("go", model=scripted("x"), llm_caller=w.compose([]))).text == "x"
    assert (await w.llm_call("go", model=scripted("x"), llm_caller=None)).text == "x"


@pytest.mark.parametrize(
    "value", [w.with_retry(), "x", None, 3, [None], [w.default_llm_caller()], [w.Model()]]
)
def test_compose_takes_a_list_of_layers(value: Any):
    with pytest.raises(w.ConfigError, match="compose"):
        w.compose(value)


@pytest.mark.parametrize("name", DOORS)
def test_every_layer_is_typed_documented_and_refuses_what_it_does_not_know(name: str):
    door = getattr(callers, name)
    only_here = ("with_rate_limit", "with_cassette")
    assert name in only_here or getattr(w, name) is door
    assert len(inspect.getdoc(door) or "") > 40
    signature = inspect.signature(door)
    assert all(p.annotation is not p.empty for p in signature.parameters.values())
    assert signature.return_annotation is not signature.empty
    typed = next(p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY) + "s"
    with pytest.raises(w.ConfigError, match=f"{name} has no option '{typed}'; did you mean"):
        door({typed: 1})
    with pytest.raises(w.ConfigError, match=name):
        door(**{typed: 1})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("with_retry", {"max_attempts": 0}),
        ("with_retry", {"max_attempts": "3"}),
        ("with_retry", {"max_attempts": True}),
        ("with_retry", {"backoff": "exponentiall"}),
        ("with_retry", {"backoff": None}),
        ("with_retry", {"backoff_ms": -1}),
        ("with_retry", {"on": "timeout"}),
        ("with_retry", {"on": ["timeouts"]}),
        ("with_retry", {"max_backoff_ms": float("nan")}),
        ("with_fallback", {}),
        ("with_fallback", {"models": []}),
        ("with_fallback", {"models": [3]}),
        ("with_fallback", {"models": ["antropic:x"]}),
        ("with_fallback", {"models": None}),
        ("with_escalation", {"frontier": "mock:x"}),
        ("with_escalation", {"frontier": "mock:x", "predicate": 3}),
        ("with_shadow", {}),
        ("with_shadow", {"model": "mock:x", "sample": 2}),
        ("with_shadow", {"model": "mock:x", "wait": -1}),
        ("with_budget", {}),
        ("with_budget", {"usd": -1}),
        ("with_budget", {"tokens": 1.5}),
        ("with_cache", {"store": 3}),
        ("with_cache", {"store": "mysql://x"}),
        ("with_cache", {"max_entries": 0}),
        ("with_cache", {"ttl": -1}),
        ("with_cache", {"session_id": ""}),
        ("with_circuit_breaker", {"failure_threshold": 0}),
        ("with_circuit_breaker", {"reset_after": "x"}),
        ("with_rate_limit", {"requests_per_minute": 0}),
        ("with_rate_limit", {"tokens_per_minute": 0.5}),
        ("with_logging", {"level": "inf"}),
        ("with_logging", {"sink": 3}),
    ],
)
def test_an_impossible_value_is_refused_before_any_call(name: str, options: dict[str, Any]):
    with pytest.raises(w.ConfigError):
        getattr(callers, name)(options)


def test_the_old_options_work_and_warn():
    async def run(**options: Any) -> tuple[str, int, float]:
        model = Shaky(w.Overloaded("x"), w.Overloaded("x"))
        model.retry_delay = RETRY_DELAY
        out = await w.agent_loop("go", model=model, **options)
        return out.status, model.calls, model.asked_at[-1] - model.asked_at[0]

    status, calls, took = run_virtual(run())
    assert (status, calls) == ("done", 3) and 3.0 <= took <= 6.0
    with pytest.warns(
        DeprecationWarning, match="llm_retries is deprecated; use llm_caller=with_retry"
    ):
        status, calls, took = run_virtual(run(llm_retries=2))
    assert (status, calls) == ("done", 3) and 3.0 <= took <= 6.0
    with pytest.warns(DeprecationWarning, match="llm_retries"):
        assert run_virtual(run(llm_retries=1))[:2] == ("provider_error", 2)
    with pytest.warns(DeprecationWarning, match="llm_retries"):
        assert run_virtual(run(llm_retries=0))[:2] == ("provider_error", 1)
    with pytest.warns(DeprecationWarning, match="llm_retries|llm_backoff_ms"):
        status, calls, took = run_virtual(run(llm_retries=2, llm_backoff_ms=100))
    assert (status, calls) == ("done", 3) and 0.15 <= took <= 0.3


def test_old_options_are_warned_about_where_they_are_given():
    with pytest.warns(DeprecationWarning) as caught:
        w.Agent(scripted("x"), llm_retries=1)
    assert caught[0].filename == __file__

    async def main() -> None:
        await w.llm_call("go", model=scripted("x"), llm_retries=1)

    with pytest.warns(DeprecationWarning) as caught:
        run_virtual(main())
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "options", [{"llm_retries": -1}, {"llm_retries": 1.5}, {"llm_backoff_ms": -1}]
)
async def test_impossible_retries_are_refused(options: dict[str, Any]):
    with pytest.raises(w.ConfigError, match="llm_"):
        await w.agent_loop("go", model=scripted(), **options)


def test_a_run_s_own_retries_stand_around_the_caller_unless_it_has_its_own():
    class Remote(Shaky):
        remote = True

    def calls_with(caller: Any) -> int:
        model = Remote(*[w.Overloaded("x") for _ in range(20)])
        out = run_virtual(w.agent_loop("go", model=model, llm_caller=caller))
        assert out.status == "provider_error"
        return model.calls

    assert calls_with(None) == 3
    assert calls_with(w.with_logging(lambda record: None)) == 3
    assert calls_with(w.with_retry(max_attempts=5)) == 5
    assert (
        calls_with(w.compose([w.with_logging(lambda record: None), w.with_retry(max_attempts=2)]))
        == 2
    )
    assert calls_with(w.compose([w.with_retry(max_attempts=4), with_rate_limit()])) == 4


def test_a_run_without_a_caller_does_not_even_load_them():
    code = (
        "import sys, windlass as w\n"
        "from windlass.testing import scripted\n"
        "assert w.Agent(scripted('x')).run_sync('go').output == 'x'\n"
        "print([name for name in sys.modules if name.startswith('windlass.callers')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
