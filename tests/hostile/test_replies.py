"""Models that answer anything: a sensible status, and a session in which every call has its result."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.hostile.helpers import (
    Tally,
    id_of,
    readable,
    shown,
    watchdog,
)
from tests.hostile.option_pools import Angry, cycle
from tests.hostile.output_pools import RAISED, nested
from tests.sizes import pick_size
from windlass.engine.environment import current_environment
from windlass.events import TextDelta, ToolCallReady
from windlass.messages import Opaque, Origin
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore

STATUSES = {"done", "provider_error", "failed", "budget_exhausted", "cancelled"}
HALF = "half \ud83d"
USED = w.Usage(3, 2)


@w.tool(side_effect_level="read_only")
async def look(a: int = 0) -> str:
    """Look at something."""
    return f"saw {a}"


@w.tool
async def change(a: Any = None) -> str:
    """Change something."""
    return "changed"


class Odd(w.Model):
    """Answers with what it is given, then with plain text; may stream odd things meanwhile."""

    def __init__(self, *replies: Any, price: Any = 0.0) -> None:
        self.replies, self.cost = list(replies), price
        self.requests: list[w.Request] = []
        self.emitted: Any = None

    async def respond(self, request: w.Request, emit: Any) -> Any:
        self.requests.append(request)
        self.emitted = emit
        reply = self.replies.pop(0) if self.replies else w.Response(w.Message("assistant", "end"))
        if callable(reply) and not isinstance(reply, type):
            reply = reply(emit)
            if asyncio.iscoroutine(reply):
                reply = await reply
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def price(self, usage: w.Usage) -> Any:
        if isinstance(self.cost, BaseException):
            raise self.cost
        return self.cost


def message(*blocks: Any, role: Any = "assistant", kind: Any = None) -> w.Message:
    made = w.Message("assistant", "")
    for name, value in (("role", role), ("content", blocks), ("kind", kind)):
        w.messages.msgspec.structs.force_setattr(made, name, value)
    return made


def reply(*blocks: Any, usage: Any = USED, reason: Any = "end_turn", **more: Any) -> w.Response:
    return w.Response(message(*blocks), usage, reason, **more)


def asks(id: Any = "c1", name: Any = "look", arguments: Any = None, raw: Any = None) -> w.ToolCall:
    return w.ToolCall(id, name, {} if arguments is None else arguments, raw)


# What the run makes of it: "reply" means that it goes on, "bad" that it is no reply.
GOOD: dict[str, Callable[[], Any]] = {
    "text": lambda: reply(w.Text("hello")),
    "unicode": lambda: reply(w.Text("ß 漢字 😀")),
    "call": lambda: reply(asks(arguments={"a": 1})),
    "two calls": lambda: reply(asks("c1"), asks("c2", "change", {"a": [1.5, "ß", None]})),
    "unknown tool": lambda: reply(asks(name="nobody")),
    "wrong arguments": lambda: reply(asks(arguments={"a": "x"})),
    "thinking": lambda: reply(w.Thinking("hm", {"signature": "x"}, Origin("p", "m")), w.Text("a")),
    "opaque": lambda: reply(Opaque(Origin("p", "m"), {"x": 1}), w.Text("a")),
    "tuples": lambda: reply(asks(name="change", arguments={"a": (1, 2)})),
    "deep but possible": lambda: reply(
        asks(name="change", arguments={"a": nested(50, lambda v: [v])})
    ),
    "counted": lambda: reply(w.Text("a"), usage=w.Usage(1, 2, 3, 4, 5, 0.5)),
}
BAD: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 5,
    "text alone": lambda: "hello",
    "message alone": lambda: w.Message("assistant", "hi"),
    "dict": lambda: {"message": "hi"},
    "class": lambda: w.Response,
    "angry": Angry,
    "no message": lambda: w.Response(None),
    "text as message": lambda: w.Response("hi"),
    "user": lambda: w.Response(w.Message("user", "hi")),
    "tool": lambda: w.Response(w.Message("tool", (w.ToolResult("c", "x"),))),
    "robot": lambda: w.Response(message(w.Text("x"), role="robot")),
    "role of none": lambda: w.Response(message(w.Text("x"), role=None)),
    "list of blocks": lambda: w.Response(message()) if False else _with_content([w.Text("x")]),
    "content of text": lambda: _with_content("hi"),
    "content of none": lambda: _with_content(None),
    "number as block": lambda: reply(5),
    "angry block": lambda: reply(Angry()),
    "result as block": lambda: reply(w.ToolResult("c", "x")),
    "text of number": lambda: reply(w.Text(5)),
    "text of bytes": lambda: reply(w.Text(b"x")),
    "text of half": lambda: reply(w.Text(HALF)),
    "empty": lambda: reply(),
    "empty text": lambda: reply(w.Text("")),
    "control characters": lambda: reply(w.Text("\x00\x1b[2J\u2028")),
    "ten megabytes": lambda: reply(w.Text("x" * 10_000_000)),
    "thinking of junk": lambda: reply(w.Thinking(HALF, Angry())),
    "thinking of nobody": lambda: reply(w.Thinking("x", {}, "me")),
    "opaque cycle": lambda: reply(Opaque(Origin("p", "m"), cycle())),
    "opaque of nobody": lambda: reply(Opaque(None, {})),
    "image of junk": lambda: reply(w.Image(data=b"x", url=5)),
    "no id": lambda: reply(asks("")),
    "same ids": lambda: reply(asks("c"), asks("c"), asks("c", "change")),
    "no name": lambda: reply(asks(name="")),
    "id of half": lambda: reply(asks(HALF)),
    "id of number": lambda: reply(asks(5)),
    "id of none": lambda: reply(asks(None)),
    "id of list": lambda: reply(asks([1])),
    "angry id": lambda: reply(asks(Angry())),
    "long id": lambda: reply(asks("x" * 10_000)),
    "odd id": lambda: reply(asks("a b\n\x00/../'\"; DROP")),
    "name of half": lambda: reply(asks(name=HALF)),
    "name of number": lambda: reply(asks(name=5)),
    "angry name": lambda: reply(asks(name=Angry())),
    "long name": lambda: reply(asks(name="x" * 10_000)),
    "odd name": lambda: reply(asks(name="a b\n\x00<tool>")),
    "arguments of list": lambda: reply(asks(arguments=[1])),
    "arguments of text": lambda: reply(asks(arguments="{}")),
    "arguments of half": lambda: reply(asks(arguments={"a": HALF, HALF: 1})),
    "arguments of nan": lambda: reply(asks(arguments={"a": float("nan")})),
    "change of nan": lambda: reply(asks(name="change", arguments={"a": [float("inf")]})),
    "number keys": lambda: reply(asks(arguments={1: 2})),
    "tuple keys": lambda: reply(asks(arguments={(1,): 2})),
    "deep arguments": lambda: reply(
        asks(name="change", arguments={"a": nested(100_000, lambda v: [v])})
    ),
    "cycle in arguments": lambda: reply(asks(name="change", arguments={"a": cycle()})),
    "objects in arguments": lambda: reply(asks(name="change", arguments={"a": object()})),
    "angry arguments": lambda: reply(asks(arguments=Angry())),
    "huge number": lambda: reply(asks(arguments={"a": 10**4000})),
    "no number at all": lambda: reply(asks(arguments={"a": 10**5000})),
    "raw": lambda: reply(asks(raw='{"a": 1')),
    "raw of half": lambda: reply(asks(raw=HALF)),
    "raw of number": lambda: reply(asks(raw=5)),
    "raw and deep": lambda: reply(asks(raw="[" * 100_000)),
    "thousand calls": lambda: reply(*[asks(f"c{n}", arguments={"a": n}) for n in range(1000)]),
    "thousand changes": lambda: reply(*[asks("same", "change") for _ in range(1000)]),
    "no usage": lambda: reply(w.Text("x"), usage=None),
    "usage of dict": lambda: reply(w.Text("x"), usage={"input_tokens": 5}),
    "negative usage": lambda: reply(w.Text("x"), usage=w.Usage(-5, -(10**30))),
    "usage of text": lambda: reply(w.Text("x"), usage=w.Usage("5", "6")),
    "usage of nan": lambda: reply(w.Text("x"), usage=w.Usage(float("nan"), 1.5)),
    "usage of truth": lambda: reply(w.Text("x"), usage=w.Usage(True, False, True)),
    "absurd usage": lambda: reply(w.Text("x"), usage=w.Usage(10**30, 2**63, 10**400)),
    "angry usage": lambda: reply(w.Text("x"), usage=w.Usage(Angry(), None)),
    "cost of nan": lambda: reply(w.Text("x"), usage=w.Usage(1, 1, cost_usd=float("nan"))),
    "cost of text": lambda: reply(w.Text("x"), usage=w.Usage(1, 1, cost_usd="much")),
    "negative cost": lambda: reply(w.Text("x"), usage=w.Usage(1, 1, cost_usd=-5.0)),
    "reason of none": lambda: reply(w.Text("x"), reason=None),
    "odd reason": lambda: reply(w.Text("x"), reason=HALF),
    "angry reason": lambda: reply(asks(), reason=Angry()),
    "pause without calls": lambda: reply(w.Text("x"), reason="pause_turn"),
    "odd native names": lambda: reply(w.Text("x"), model=5, native_id=HALF),
    "odd kind": lambda: w.Response(message(w.Text("x"), kind=HALF)),
    "kind of number": lambda: w.Response(message(w.Text("x"), kind=5)),
}


def _with_content(content: Any) -> w.Response:
    made = message()
    w.messages.msgspec.structs.force_setattr(made, "content", content)
    return w.Response(made)


def store_at(place: str, folder: Path) -> Store:
    return MemoryStore() if place == "memory" else SqliteStore(folder / "s.db")


async def outlive(model: Odd, store: Store, session_id: str, what: str, **options: Any) -> Any:
    """Run with the odd model; afterwards the session is whole and can be used again."""
    session_id = id_of(session_id)
    agent = w.Agent(model, tools=[look, change], store=store, max_turns=4, **options)
    with watchdog(what):
        out = await agent.run("go", session_id=session_id)
    assert out.status in STATUSES, f"{what}: {out.status} {shown(out.error)}"
    await readable(store, session_id)
    assert (await store.info(session_id)).status == out.status, f"{what}: the end is not on record"
    plain = Odd()
    again = await w.Agent(plain, tools=[look], store=store).run("again", session_id=session_id)
    assert again.status == "done", f"{what}: {again.error}"
    return out


@pytest.mark.parametrize("place", ["memory", "sqlite"])
@pytest.mark.parametrize("first", [True, False], ids=["first reply", "after a call"])
async def test_odd_replies(place: str, first: bool, tmp_path: Path) -> None:
    met = Tally(f"replies, {place}, {'first' if first else 'later'}")
    store = store_at(place, tmp_path)
    before: list[Any] = [] if first else [reply(asks("earlier", arguments={"a": 7}))]
    for what, make in {**GOOD, **BAD}.items():
        out = await outlive(Odd(*before, make()), store, what, what)
        if what in GOOD:
            assert out.status == "done", f"{what}: {out.error}"
            met.valid(out.status)
        else:
            kind = (out.error or {}).get("kind")
            assert kind in (None, "BadReply"), f"{what}: {out.error}"
            met.invalid(kind or out.status)
        assert out.usage.input_tokens >= 0 and out.usage.output_tokens >= 0
        assert out.cost_usd >= 0
    await store.aclose()
    met.report()


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_models_that_raise(place: str, tmp_path: Path) -> None:
    met = Tally(f"errors of models, {place}")
    store = store_at(place, tmp_path)
    more: dict[str, Callable[[], BaseException]] = {
        "cancelled by itself": asyncio.CancelledError,
        "rate limit": lambda: w.errors.RateLimited(HALF, code=HALF, provider=HALF),
        "odd category": lambda: _with(w.errors.BadRequest("x"), category=Angry(), code=object()),
        "overflow": lambda: w.errors.ContextOverflow("x" * 1_000_000),
    }
    for what, make in {**RAISED, **more}.items():
        if what in ("exit", "stop"):
            continue  # the process ends; a coroutine cannot raise the other
        out = await outlive(Odd(*[make() for _ in range(3)]), store, what, what)
        assert out.status in ("failed", "provider_error"), what
        with pytest.raises(w.WindlassError):
            out.raise_for_status()
        met.invalid(out.error["kind"].encode(errors="replace").decode()[:20])
    met.valid((await outlive(Odd(), store, "fine", "fine")).status)
    await store.aclose()
    met.report()


def _with(error: BaseException, **attributes: Any) -> BaseException:
    for name, value in attributes.items():
        error.__dict__[name] = value
    return error


PRICES: list[Any] = [
    0.5,
    0,
    1,
    float("nan"),
    float("inf"),
    -1.0,
    None,
    "much",
    True,
    Angry(),
    ValueError("no price"),
    10**400,
    KeyError(HALF),
    [],
    1j,
]


@pytest.mark.parametrize(
    "budget", [None, {"usd": 10.0}, {"tokens": 1000}], ids=["free", "usd", "tokens"]
)
async def test_prices(budget: Any) -> None:
    met = Tally(f"prices under {budget}")
    store = MemoryStore()
    for number, price in enumerate(PRICES):
        right = isinstance(price, (int, float)) and price in (0.5, 0, 1, True)
        model = Odd(reply(asks()), price=price)
        out = await outlive(model, store, str(number), shown(price), budget=budget)
        assert 0 <= out.cost_usd < 1000
        if right:
            met.valid(out.status)
            assert out.status == "done"
        elif budget == {"usd": 10.0}:  # a budget in dollars without a price is nobody's budget
            assert out.error["kind"] == "ConfigError" and not model.requests
            met.invalid(out.error["kind"])
        else:
            met.invalid(out.status)
    met.report()


EMITTED: list[Any] = [
    None,
    5,
    "text",
    Angry(),
    object(),
    TextDelta(5),
    TextDelta(HALF),
    TextDelta(None),
    ToolCallReady(None),
    ToolCallReady(5),
    ToolCallReady(asks(Angry())),
    ToolCallReady(asks(HALF)),
    ToolCallReady(asks(name=[1])),
    ToolCallReady(asks(arguments=5)),
    ToolCallReady(asks(arguments={"a": float("nan")})),
    ToolCallReady(asks("")),
    ToolCallReady(asks("other", arguments={"a": 5})),
    w.ToolCall,
    b"bytes",
]
HEARD: list[Any] = [
    TextDelta("a"),
    ToolCallReady(asks("c1", arguments={"a": 1})),
    ToolCallReady(asks("c2", "change")),
    ToolCallReady(asks("c9", "nobody")),
]


@pytest.mark.parametrize("where", ["here", "elsewhere", "later"])
async def test_odd_events(where: str) -> None:
    """Streamed from the call, from another thread, or when the call is long over."""
    met = Tally(f"events emitted {where}")
    store = MemoryStore()
    for number, event in enumerate(EMITTED + HEARD):
        answer = reply(asks("c1", arguments={"a": 1}), asks("c2", "change"))

        async def respond(emit: Any, event: Any = event, answer: Any = answer) -> Any:
            if where == "here":
                emit(event)
            elif where == "elsewhere":
                thread = threading.Thread(target=_quietly, args=(emit, event))
                thread.start()
                await asyncio.to_thread(thread.join)
            return answer

        model = Odd(respond)
        agent = w.Agent(model, tools=[look, change], store=store)
        async with agent.stream("go", session_id=str(number)) as run:
            seen = [one async for one in run]
            out = await run.result()
        if where == "later":
            model.emitted(event)
        await asyncio.sleep(0)
        assert out.status == "done", f"{shown(event)}: {out.error}"
        results = [(record.name, record.outcome) for record in out.tool_calls]
        assert results == [("look", "ok"), ("change", "ok")], shown(event)
        assert seen
        await readable(store, str(number))
        (met.valid if any(event is one for one in HEARD) else met.invalid)(out.status)
    met.report()


def _quietly(emit: Any, event: Any) -> None:
    for _ in range(20):
        emit(event)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_model_that_never_answers(stubborn: bool) -> None:
    release, asked = asyncio.Event(), asyncio.Event()

    async def wait(_emit: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if stubborn:
                await release.wait()
            raise

    brake = w.Abort()
    model = Odd(reply(asks("c1", "change")), wait)
    task = asyncio.ensure_future(
        w.Agent(model, tools=[change]).run("go", session_id="s", abort=brake)
    )
    await asked.wait()
    brake.abort("enough")
    out = await asyncio.wait_for(task, 5)
    assert out.status == ("cancelling" if stubborn else "cancelled")
    release.set()
    if lingering := current_environment().lingering:
        await asyncio.wait(lingering, timeout=5)
    await readable(out._run.store, "s")
    again = await w.Agent(Odd(), tools=[change]).run("again", session_id="s")
    assert again.status == "done"


def generated(rng: random.Random) -> tuple[Any, bool]:
    """A reply of odd parts, and whether all of them are right."""
    right = True

    def pick(good: list[Any], bad: list[Any], share: float = 0.15) -> Any:
        nonlocal right
        if rng.random() < share:
            right = False
            return rng.choice(bad)
        return rng.choice(good)

    def call() -> Any:
        return w.ToolCall(
            pick([f"c{rng.randrange(10**9)}"], ["", HALF, 5, None, Angry()]),
            pick(["look", "change", "nobody"], [HALF, "", "x" * 500, 5, None]),
            pick(
                [{}, {"a": 1}, {"a": "ß"}, {"a": [1, {"b": None}]}],
                [
                    {"a": HALF},
                    {"a": float("nan")},
                    {1: 2},
                    [],
                    None,
                    {"a": object()},
                    {"a": cycle()},
                ],
            ),
            pick([None], ["{", HALF, 5], 0.05),
        )

    blocks = [
        pick(
            [w.Text("a"), w.Text("ß"), w.Thinking("t")],
            [w.Text(HALF), w.Text(5), None, w.ToolResult("x")],
            0.1,
        )
        if rng.random() < 0.5
        else call()
        for _ in range(rng.randrange(4))
    ]
    usage = pick(
        [w.Usage(1, 1), w.Usage(), w.Usage(5, 5, 2)],
        [w.Usage(-1), w.Usage("x"), None, w.Usage(1.5)],
        0.1,
    )
    made = reply(*blocks, usage=usage, reason=pick(["end_turn", "tool_use"], [None, 5, HALF], 0.1))
    if rng.random() < 0.1:
        return rng.choice(
            [None, 5, "x", w.Message("assistant", "x"), w.Response(w.Message("user", "x"))]
        ), False
    return made, right


async def generated_replies(place: str, folder: Path, count: int, seed: int) -> None:
    met = Tally(f"generated replies, {place}")
    rng, store = random.Random(seed), store_at(place, folder)
    for number in range(count):
        made = [generated(rng) for _ in range(rng.randrange(1, 4))]
        out = await outlive(Odd(*[one for one, _ in made]), store, f"{seed} {number}", shown(made))
        if all(fine for _, fine in made):
            assert out.status == "done", out.error
            met.valid(out.status)
        else:
            met.invalid((out.error or {}).get("kind") or out.status)
    await store.aclose()
    met.report(count)


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_generated_replies(place: str, tmp_path: Path) -> None:
    await generated_replies(place, tmp_path, 300 if place == "memory" else 80, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_many_generated_replies(place: str, tmp_path: Path) -> None:
    await generated_replies(place, tmp_path, pick_size(1000, 3000, proof="HOSTILE"), seed=2)


@pytest.mark.parametrize("what", [*GOOD, *BAD])
async def test_a_single_call(what: str) -> None:
    """`llm_call` gives the reply, or a typed error."""
    make = {**GOOD, **BAD}[what]
    try:
        result = await w.llm_call("hi", model=Odd(make()))
    except w.ModelError:
        assert what in BAD
    else:
        assert result.message.role == "assistant"
        w.messages.msgspec.json.encode(result.message)


JUNK: dict[str, Callable[[Any], Any]] = {
    "note": lambda run: run.note("odd", object()),
    "note of nan keys": lambda run: run.note("odd", {(1,): 2}),
    "note of half": lambda run: run.note(HALF, 1),
    "note of a cycle": lambda run: run.note("odd", cycle()),
    "say": lambda run: run.say(HALF, "odd"),
    "reminder": lambda run: run.say(HALF, "odd", ttl=2),
    "say a number": lambda run: run.say(5, "odd"),
    "suspend": lambda run: w.Suspend("wait", {"until": object()}),
    "suspend for nothing": lambda run: w.Suspend(5),
    "stop": lambda run: w.Stop(HALF, HALF),
    "stop with junk": lambda run: w.Stop("odd", "odd", {"a": object()}),
    "stop with a cycle": lambda run: w.Stop(5, Angry(), {"a": cycle()}),
    "remember": lambda run: run.remember(run.plan.policies[0], object()),
    "raise": lambda run: 1 / 0,
    "quiet": lambda run: (_ for _ in ()).throw(RAISED["quiet"]()),
    "angry": lambda run: Angry(),
    "record": lambda run: run.record(w.events.Noted("behind the back", object())),
}


@pytest.mark.parametrize("moment", ["before_turn", "after_reply", "after_turn"])
@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_policies_that_record_junk(place: str, moment: str, tmp_path: Path) -> None:
    """What a policy puts on the record and no journal can hold fails the run, and only that."""
    met = Tally(f"junk from policies {moment}, {place}")
    store = store_at(place, tmp_path)
    for what, do in {**JUNK, "nothing": lambda run: None}.items():
        if what == "record" and place == "memory":
            continue  # behind every check; in memory it shows when someone asks for the rows

        async def act(_self: Any, run: Any, *_rest: Any, do: Any = do) -> Any:
            return do(run) if run.iteration == 1 - (moment == "before_turn") else None

        policy = type("Junk", (w.Policy,), {moment: act})()
        model = Odd(reply(asks("c1", "change"), asks("c2")))
        agent = w.Agent(model, tools=[look, change], store=store, policies=[policy])
        with watchdog(what):
            out = await agent.run("go", session_id=id_of(what))
        await readable(store, id_of(what))
        assert (await store.info(id_of(what))).status == out.status, (
            f"{what}: the end is not on record"
        )
        again = await w.Agent(Odd(), tools=[look], store=store).run("again", session_id=id_of(what))
        assert again.status == "done", f"{what}: {again.error}"
        if what == "nothing":
            met.valid(out.status)
        else:
            assert out.status != "done", what
            met.invalid((out.error or {}).get("kind") or out.status)
    await store.aclose()
    met.report()
