"""Two tenants, two addresses, two keys: no layer that is shared answers or decides for another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.callers import with_cassette, with_rate_limit
from windlass.callers.scope import MOST_SCOPES, Scope, ScopedStates, current_tenant, scope_of
from windlass.models.base import Emit, Request, Response
from windlass.runtime.runtime import Runtime
from windlass.store.memory import MemoryStore
from windlass.testing import call, run_virtual, scripted

ACME, EVIL = w.Caller("ann", tenant="acme"), w.Caller("ann", tenant="evil")
HOST = w.Caller("ann")
KEY, OTHER_KEY = "sk-acme-111111", "sk-evil-222222"
HERE, THERE = "https://here.example", "https://there.example"


class Endpoint(w.Model):
    """A model at an address, with a key; it answers its script, then `ok`."""

    provider, name = "p", "n"

    def __init__(self, *script: Any, address: str = HERE, key: str = KEY) -> None:
        self.script, self.address, self.secrets = list(script), address, (key,)
        self.tenants: list[str | None] = []
        self.asked_at: list[float] = []

    async def respond(self, request: Request, emit: Emit) -> Response:
        self.tenants.append(current_tenant())
        self.asked_at.append(seams.monotonic())
        step = self.script.pop(0) if self.script else "ok"
        if isinstance(step, Exception):
            raise step
        return Response(w.Message("assistant", step))


#: How a run reaches the layer: through every door.
async def by_agent_loop(model: w.Model, layer: Any, caller: w.Caller) -> str:
    out = await w.agent_loop("go", model=model, llm_caller=layer, caller=caller)
    return f"{out.status}: {out.final_text}"


async def by_agent(model: w.Model, layer: Any, caller: w.Caller) -> str:
    out = await w.Agent(layer(model)).run(
        "go", caller=caller
    )  # no llm_caller: the layer is the model
    return f"{out.status}: {out.final_text}"


async def by_llm_call(model: w.Model, layer: Any, caller: w.Caller) -> str:
    try:
        return f"done: {(await w.llm_call('go', model=layer(model), caller=caller)).text}"
    except w.ModelError as error:
        return f"{error.category}: "


async def by_stream(model: w.Model, layer: Any, caller: w.Caller) -> str:
    out = w.Agent(layer(model)).stream("go", caller=caller)
    async for _ in out:
        pass
    result = await out.result()
    return f"{result.status}: {result.final_text}"


DOORS = [by_agent_loop, by_agent, by_llm_call]
Door = Callable[[w.Model, Any, w.Caller], Any]

#: Whoever differs in one thing only, and the control, who differs in nothing.
SECOND = [
    pytest.param(EVIL, {}, id="tenant"),
    pytest.param(HOST, {}, id="no-tenant"),
    pytest.param(ACME, {"address": THERE}, id="address"),
    pytest.param(ACME, {"key": OTHER_KEY}, id="key"),
    pytest.param(ACME, None, id="control"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("caller", "differs"), SECOND)
async def test_a_cached_reply_stays_where_it_was_given(
    door: Door, caller: w.Caller, differs: dict[str, str] | None
):
    layer = w.with_cache()
    assert await door(Endpoint("planted"), layer, ACME) == "done: planted"
    second = Endpoint("own", **(differs or {}))
    assert await door(second, layer, caller) == (
        "done: planted" if differs is None else "done: own"
    )
    assert second.tenants == ([] if differs is None else [caller.tenant])


@pytest.mark.parametrize(("caller", "differs"), SECOND)
async def test_a_cache_in_a_store_keeps_them_apart_in_the_next_process(
    caller: w.Caller, differs: dict[str, str] | None
):
    store = MemoryStore()
    await by_agent_loop(Endpoint("planted"), w.with_cache(store), ACME)
    said = await by_agent_loop(Endpoint("own", **(differs or {})), w.with_cache(store), caller)
    assert said == ("done: planted" if differs is None else "done: own")
    kept = repr(await store.read("llm_cache"))
    assert KEY not in kept and OTHER_KEY not in kept and "acme" not in kept


async def test_a_planted_call_is_not_run_by_another_tenant():
    ran: list[str] = []

    @w.tool(side_effect_level="none")
    async def pay(to: str) -> str:
        """Pay somebody."""
        ran.append(to)
        return "paid"

    class Planting(Endpoint):
        async def respond(self, request: Request, emit: Emit) -> Response:
            calls = (w.ToolCall("c1", "pay", {"to": "mallory"}),)
            said = calls if request.messages[-1].role == "user" else (w.Text("paid"),)
            reason = "tool_use" if said is calls else "end_turn"
            return Response(w.Message("assistant", said), stop_reason=reason)

    layer = w.with_cache()
    loop: Any = {"tools": [pay], "llm_caller": layer}
    await w.agent_loop("go", model=Planting(address=THERE, key=OTHER_KEY), caller=EVIL, **loop)
    assert ran == ["mallory"]
    out = await w.agent_loop("go", model=Endpoint("nothing to pay"), caller=ACME, **loop)
    assert (out.final_text, ran) == ("nothing to pay", ["mallory"])


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("caller", "differs"), SECOND)
async def test_a_circuit_that_one_opened_is_closed_for_the_other(
    door: Door, caller: w.Caller, differs: dict[str, str] | None
):
    layer = w.with_circuit_breaker(failure_threshold=1, reset_after=30)
    broken = Endpoint(*[w.BadReply("broken")] * 9)
    assert not (await door(broken, layer, ACME)).startswith("done")
    second = Endpoint("own", **(differs or {}))
    said = await door(second, layer, caller)
    assert (said == "done: own", len(second.tenants)) == (
        (False, 0) if differs is None else (True, 1)
    )


@pytest.mark.parametrize(("caller", "differs"), SECOND)
def test_nobody_waits_for_the_pace_of_another(caller: w.Caller, differs: dict[str, str] | None):
    layer = with_rate_limit(requests_per_minute=1)

    async def both() -> float:
        began = seams.monotonic()
        await by_agent_loop(Endpoint(), layer, ACME)
        second = Endpoint(**(differs or {}))
        await by_agent_loop(second, layer, caller)
        return second.asked_at[0] - began

    waited = run_virtual(both())
    assert waited >= 59 if differs is None else waited < 1


@pytest.mark.parametrize(
    ("caller", "said"), [(EVIL, "own"), (HOST, "own"), (ACME, "planted")], ids=str
)
async def test_a_tape_is_played_to_the_tenant_it_was_recorded_for(
    caller: w.Caller, said: str, tmp_path: Path
):
    tape = tmp_path / "tape.jsonl"
    await by_agent_loop(Endpoint("planted"), with_cassette(tape, record="new"), ACME)
    again = with_cassette(tape, record="new")
    assert await by_agent_loop(Endpoint("own"), again, caller) == f"done: {said}"
    assert "acme" not in tape.read_text()


async def test_a_tape_of_before_is_for_everybody(tmp_path: Path):
    tape = tmp_path / "tape.jsonl"
    await by_agent_loop(Endpoint("old"), with_cassette(tape), ACME)
    lines = tape.read_text().splitlines()
    cut = lines[-1].index(',"tenant":')
    tape.write_text("\n".join([*lines[:-1], lines[-1][:cut] + "}"]) + "\n")
    assert await by_agent_loop(Endpoint(), with_cassette(tape), EVIL) == "done: old"


async def test_a_budget_is_one_purse_for_all_who_share_it():
    layer = w.with_budget(calls=2)
    said = [await by_agent_loop(Endpoint(), layer, caller) for caller in (ACME, EVIL, ACME)]
    assert [one.partition(":")[0] for one in said] == ["done", "done", "budget_exhausted"]


# --------------------------------------------------------------------------- who the call is for


async def test_every_layer_inside_knows_the_tenant():
    model = Endpoint()
    layers = [w.with_retry(), w.with_budget(calls=9), w.with_cache(), w.with_logging()]
    shadow = Endpoint(address=THERE)
    caller = w.compose([*layers, w.with_shadow(shadow)])(w.default_llm_caller())
    await by_agent_loop(model, caller, ACME)
    assert (model.tenants, shadow.tenants) == (["acme"], ["acme"])
    assert current_tenant() is None


async def test_a_sub_agent_asks_for_the_tenant_of_its_parent():
    child = Endpoint("child")
    layer = w.with_cache()
    for caller in (ACME, EVIL, ACME):
        agent = w.Agent(layer(child), name="helper")
        out = await w.Agent(
            scripted(call("helper", task="x"), "done"),
            tools=[agent.as_tool()],
        ).run("go", caller=caller)
        assert out.status == "done"
    assert child.tenants == ["acme", "evil"]


def read_all(folder: Path) -> bytes:
    """Everything that is on disk."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def asked_in(how: str, model: w.Model) -> tuple[dict[str, Any], list[str]]:
    """Options of a run whose tool or callback asks the model itself, and what it was answered."""
    said: list[str] = []

    async def ask() -> str:
        reply = await model.respond(Request([w.Message("user", "the same")]), lambda event: None)
        said.append(reply.message.text)
        return said[-1]

    @w.tool
    async def look() -> str:
        """Look it up."""
        return await ask()

    @w.tool
    def look_in_thread() -> str:
        """Look it up, in a thread."""
        return asyncio.run(ask())

    if how == "tool":
        return {"tools": [look]}, said
    return {"tools": [look_in_thread]}, said


@pytest.mark.parametrize("how", ["tool", "thread"])
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "sqlite"])
async def test_a_model_that_a_tool_asks_itself_answers_for_the_tenant_of_the_run(
    how: str, kept: bool, tmp_path: Path
):
    store = f"sqlite:///{tmp_path}/cache.db" if kept else None
    inner = Endpoint("for acme", "for evil", "for the host")
    layer = w.with_cache(store)
    options, said = asked_in(how, layer(inner))
    name = options["tools"][0].name
    for caller in (ACME, EVIL, None, ACME, EVIL, None):
        model = scripted(call(name), "done")
        out = await w.Agent(model, **options).run("go", caller=caller)
        assert out.status == "done"
    expected = ["for acme", "for evil", "for the host"]
    assert said == [*expected, *expected]  # the second time from the cache: it does work
    assert inner.tenants == ["acme", "evil", None] and layer.hits == 3
    reply = await layer(inner).respond(Request([w.Message("user", "the same")]), lambda event: None)
    assert reply.message.text == "for the host" and current_tenant() is None


async def test_a_reply_that_a_tool_asked_for_is_kept_without_secrets(tmp_path: Path):
    secret = "sk-canary-4f9a8b7c6d5e"
    place = tmp_path / "cache.db"
    options, said = asked_in(
        "tool", w.with_cache(f"sqlite:///{place}")(Endpoint(f"it is {secret}"))
    )
    async with Runtime(store="memory:", environ={"SOME_API_KEY": secret}):
        out = await w.Agent(scripted(call("look"), "done"), **options).run("go", caller=ACME)
    assert out.status == "done" and said == [f"it is {secret}"]
    disk = read_all(tmp_path)
    assert secret.encode() not in disk and b"it is " in disk


async def test_the_key_is_that_of_the_runtime_that_asks(monkeypatch: pytest.MonkeyPatch):
    model = w.models.anthropic("claude-sonnet-4-5")
    scopes: list[Scope] = []
    for key in (KEY, OTHER_KEY, KEY):
        async with Runtime(store="memory:", environ={"ANTHROPIC_API_KEY": key}):
            scopes.append(scope_of(model))
    assert scopes[0] == scopes[2] != scopes[1]
    assert KEY not in repr(scopes)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({}, {"base_url": HERE}, False),
        ({"base_url": HERE}, {"base_url": THERE}, False),
        ({"base_url": HERE}, {"base_url": HERE}, True),
        ({}, {"api_key": OTHER_KEY}, False),
        ({"headers": {"x-org": "1"}}, {"headers": {"x-org": "2"}}, False),
        (
            {"headers": {"authorization": "Bearer a1b2c3d4"}},
            {"headers": {"authorization": "Bearer z"}},
            False,
        ),
    ],
)
def test_what_makes_two_models_of_a_name_one(one: Any, other: Any, same: bool):
    first = w.models.openai_chat("gpt-4o", **{"api_key": KEY, **one})
    second = w.models.openai_chat("gpt-4o", **{"api_key": KEY, **other})
    assert (scope_of(first) == scope_of(second)) is same
    assert (scope_of(w.with_retry()(first)) == scope_of(w.with_logging()(second))) is same


def test_many_tenants_do_not_fill_the_memory():
    states = ScopedStates(dict[str, int], lambda state: not state)
    busy = states.get(Scope("m", "a", "k", "busy"))
    busy["under way"] = 1
    for number in range(3 * MOST_SCOPES):
        states.get(Scope("m", "a", "k", f"t{number}"))
    assert len(states) <= MOST_SCOPES
    assert states.get(Scope("m", "a", "k", "busy")) is busy
