"""The cache: what is the same request, what is kept, and what the next process finds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.callers.helpers import Shaky, asked, kinds
from windlass import seams
from windlass.events import Replied
from windlass.models.base import Frame, Request, Settings
from windlass.store.memory import MemoryStore
from windlass.testing import call, run_virtual, scripted


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_hit_asks_nobody_costs_nothing_and_is_marked():
    model, layer = Shaky("one", "two"), w.with_cache()
    first = await w.agent_loop("go", model=model, llm_caller=layer)
    again = await w.agent_loop("go", model=model, llm_caller=layer)
    assert (first.final_text, again.final_text, model.calls) == ("one", "one", 1)
    replies = [e for e in (*first.entries, *again.entries) if isinstance(e, Replied)]
    assert [(r.via, r.cost_usd) for r in replies] == [(None, pytest.approx(0.11)), ("cache", 0.0)]
    assert (first.llm.input_tokens, again.llm.input_tokens) == (100, 0)
    assert (layer.hits, layer.misses) == (1, 1)


async def test_a_whole_run_with_tools_comes_from_the_cache():
    model, layer = scripted(call("add", a=1, b=2), "3"), w.with_cache()
    for _ in range(3):
        out = await w.agent_loop("go", model=model, tools=[add], llm_caller=layer)
        assert (out.status, out.final_text, out.tools.successful) == ("done", "3", ["add"])
    assert len(model.requests) == 2


async def test_a_hit_is_shown_like_a_reply():
    layer, events = w.with_cache(), list[Any]()
    await asked(layer(Shaky("one")))
    assert (await asked(layer(Shaky()), events.append)).text == "one"
    assert kinds(events) == ["TextDelta"] and events[0].text == "one"


@pytest.mark.parametrize(
    ("request_", "same"),
    [
        (Request([w.Message("user", "q")]), True),
        (
            Request([w.Message("user", "q")], Frame(settings=Settings(stream=False, timeout=3))),
            True,
        ),
        (Request([w.Message("user", "Q")]), False),
        (Request([w.Message("user", "q")], Frame("sys")), False),
        (Request([w.Message("user", "q")], Frame(settings=Settings(temperature=1))), False),
        (Request([w.Message("user", "q")], Frame(tools=(add.spec,))), False),
        (Request([w.Message("user", "q")], tail=(w.Message("user", "r"),)), False),
        (Request([w.Message("user", "q"), w.Message("user", "r")]), False),
    ],
)
async def test_the_key_is_what_is_asked(request_: Request, same: bool):
    model, layer = Shaky("one", "two"), w.with_cache()
    await asked(layer(model))
    await layer(model).respond(request_, lambda event: None)
    assert model.calls == (1 if same else 2)


async def test_another_model_has_other_answers():
    layer, other = w.with_cache(), Shaky("two", name="other")
    await asked(layer(Shaky("one")))
    assert (await asked(layer(other))).text == "two"


async def test_what_was_cut_or_failed_is_not_kept():
    layer = w.with_cache()
    cut = w.Response(w.Message("assistant", "cu"), stop_reason="max_tokens")
    model = scripted(cut, w.Overloaded("x"), "whole")
    assert (await asked(layer(model))).text == "cu"
    with pytest.raises(w.Overloaded):
        await asked(layer(model))
    assert [(await asked(layer(model))).text for _ in range(2)] == ["whole", "whole"]


def test_a_reply_is_kept_for_so_long():
    async def main() -> int:
        model, layer = Shaky(), w.with_cache(ttl=60)
        for wait in (0, 59, 2, 1):
            await seams.sleep(wait)
            await asked(layer(model))
        return model.calls

    assert run_virtual(main()) == 2


async def test_memory_holds_the_latest_used():
    model, layer = Shaky(), w.with_cache(max_entries=2)

    async def ask(text: str) -> None:
        await layer(model).respond(Request([w.Message("user", text)]), lambda event: None)

    for text in "abac":  # b goes
        await ask(text)
    calls = model.calls
    await ask("a")
    assert model.calls == calls
    await ask("b")
    assert model.calls == calls + 1


@pytest.mark.parametrize("place", ["address", "store"])
async def test_the_next_process_finds_what_was_kept(place: str, tmp_path: Path):
    store: Any = f"sqlite:///{tmp_path}/cache.db" if place == "address" else MemoryStore()
    for expected in (1, 0):
        model = Shaky("one", "two")
        reply = await asked(w.with_cache(store)(model))  # a layer of its own: nothing in memory
        assert (reply.text, model.calls) == ("one", expected)
        assert reply.via == (None if expected else "cache")


async def test_many_at_once_are_all_written(tmp_path: Path):
    address = f"sqlite:///{tmp_path}/cache.db"

    def requests() -> list[Request]:
        return [Request([w.Message("user", f"q{n}")]) for n in range(20)]

    layer, model = w.with_cache(store=address), Shaky()
    await asyncio.gather(*[layer(model).respond(r, lambda event: None) for r in requests()])
    later, unasked = w.with_cache(store=address), Shaky()
    for request in requests():
        await later(unasked).respond(request, lambda event: None)
    assert (model.calls, unasked.calls) == (20, 0)


async def test_a_key_of_the_model_is_not_written():
    class Keyed(Shaky):
        secrets = ("sk-verysecret123",)

    store = MemoryStore()
    assert (
        "sk-verysecret123"
        in (await asked(w.with_cache(store)(Keyed("it is sk-verysecret123")))).text
    )
    assert "sk-verysecret123" not in str(await store.read("llm_cache"))


async def test_a_store_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture):
    store, model = MemoryStore(), Shaky()
    holder = await store.open("llm_cache")  # somebody else writes
    layer = w.with_cache(store)
    assert [(await asked(layer(model))).text for _ in range(2)] == ["ok", "ok"]
    assert model.calls == 1 and "memory only" in caplog.text
    await holder.close()
