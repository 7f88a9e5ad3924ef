"""Trying a call again: when, how long to wait, and what a listener is told."""

from __future__ import annotations

import random
from typing import Any

import pytest

from windlass import seams
from windlass.errors import (
    AuthFailed,
    ConfigError,
    ModelError,
    Overloaded,
    RateLimited,
    StreamBroken,
)
from windlass.events import StreamRestarted, TextDelta
from windlass.messages import Message
from windlass.models.base import Emit, Model, Request, Response, silent
from windlass.models.wrappers.retry import Retrying


class Flaky(Model):
    provider, name = "p", "n"

    def __init__(self, *script: ModelError | str) -> None:
        self.script = list(script)
        self.calls = 0

    async def respond(self, request: Request, emit: Emit) -> Response:
        self.calls += 1
        step = self.script.pop(0)
        if isinstance(step, ModelError):
            if isinstance(step, StreamBroken):
                emit(TextDelta("half"))
            raise step
        emit(TextDelta(step))
        return Response(Message("assistant", step))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(seams, "sleep", sleep)
    monkeypatch.setattr(seams, "rng", random.Random(1))
    return waits


async def ask(model: Model, emit: Any = silent) -> Response:
    return await model.respond(Request([Message("user", "q")]), emit)


async def test_a_passing_fault_is_tried_again_after_growing_waits(slept: list[float]) -> None:
    flaky = Flaky(Overloaded("x"), Overloaded("x"), "ok")
    assert (await ask(Retrying(flaky, 3, base_delay=2))).message.text == "ok"
    assert 1 <= slept[0] <= 2 <= slept[1] <= 4 and len(slept) == 2


async def test_the_provider_says_when(slept: list[float]) -> None:
    flaky = Flaky(RateLimited("x", retry_after=17), "ok")
    await ask(Retrying(flaky))
    assert slept == [17]


async def test_nobody_waits_for_an_hour(slept: list[float]) -> None:
    flaky = Flaky(RateLimited("x", retry_after=3600), "ok")
    with pytest.raises(RateLimited):
        await ask(Retrying(flaky))
    assert flaky.calls == 1 and slept == []


async def test_the_last_error_is_raised(slept: list[float]) -> None:
    flaky = Flaky(Overloaded("1"), Overloaded("2"), Overloaded("3"), "never")
    with pytest.raises(Overloaded, match="3"):
        await ask(Retrying(flaky, 3))
    assert flaky.calls == 3 and len(slept) == 2


async def test_what_cannot_get_better_is_raised_at_once(slept: list[float]) -> None:
    final = Overloaded("told not to")
    vars(final)["transient"] = False
    for error in (AuthFailed("no"), final):
        flaky = Flaky(error, "never")
        with pytest.raises(ModelError):
            await ask(Retrying(flaky))
        assert flaky.calls == 1
    assert slept == []


async def test_what_was_streamed_is_declared_void(slept: list[float]) -> None:
    told: list[Any] = []
    await ask(Retrying(Flaky(Overloaded("quiet"), StreamBroken("cut"), "ok"), 3), told.append)
    assert told == [TextDelta("half"), StreamRestarted("network: cut"), TextDelta("ok")]


async def test_one_attempt_is_none_too_few(slept: list[float]) -> None:
    with pytest.raises(Overloaded):
        await ask(Retrying(Flaky(Overloaded("x")), 1))
    for bad in ({"attempts": 0}, {"base_delay": -1}, {"max_delay": -1}):
        with pytest.raises(ConfigError):
            Retrying(Flaky(), **bad)


def test_it_is_its_model_to_everyone_else() -> None:
    inner = Flaky()
    inner.secrets = ("s3cret",)
    outer = Retrying(inner)
    assert (outer.provider, outer.name, outer.secrets) == ("p", "n", ("s3cret",))
