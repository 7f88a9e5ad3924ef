"""Keeping a provider's pace: exact limits, 429 storms, headers, order, cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.callers.helpers import Shaky, asked
from windlass import seams
from windlass.callers import with_rate_limit
from windlass.callers.rate_limit import Gate
from windlass.messages import Message
from windlass.models.base import Emit, Model, Request, Response
from windlass.testing import run_virtual
from windlass.usage import Usage


class Provider(Model):
    """Takes `rate` requests a second, `burst` at once, and refuses the rest as providers do."""

    provider = "p"

    def __init__(self, rate: float, burst: int, *, delay: float = 0.2, says: bool = True) -> None:
        self.rate, self.burst, self.delay, self.says = rate, burst, delay, says
        self.level, self.at = float(burst), seams.monotonic()
        self.served: list[tuple[float, str]] = []
        self.refused: list[float] = []

    async def respond(self, request: Request, emit: Emit) -> Response:
        now = seams.monotonic()
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1:
            self.refused.append(now)
            wait = (1 - self.level) / self.rate
            await seams.sleep(0.05)  # the way there and back
            raise w.RateLimited("slow down", retry_after=wait if self.says else None)
        self.level -= 1
        await seams.sleep(self.delay)
        self.served.append((now, request.messages[0].text))
        return Response(Message("assistant", "ok"), Usage(10, 5))


def spread(times: list[float], seconds: float) -> int:
    """The most that fell into any stretch of so many seconds."""
    return max(sum(start <= t < start + seconds for t in times) for start in times)


@pytest.mark.parametrize("says", [True, False], ids=["retry_after", "silent"])
def test_a_storm_of_429_drains_at_the_provider_s_pace(says: bool):
    """200 runs at once against 5 requests a second: each is served, in order, without a herd."""

    async def main() -> tuple[Provider, list[Any], float]:
        provider = Provider(5, 5, says=says)
        layer = with_rate_limit()
        began = seams.monotonic()
        runs = [w.agent_loop(f"run {n}", model=provider, llm_caller=layer) for n in range(200)]
        outs = await asyncio.gather(*runs)
        return provider, outs, seams.monotonic() - began

    provider, outs, took = run_virtual(main(), seed=1)
    assert {out.status for out in outs} == {"done"}
    best = (200 - 5) / 5
    assert took < best * (1.6 if says else 3), took  # near the provider's own pace
    assert len(provider.refused) < (60 if says else 90), len(provider.refused)
    assert spread(provider.refused, 0.1) <= 16  # never a herd, not even at first
    assert len({text for _, text in provider.served}) == 200


def test_nobody_is_starved_and_nobody_jumps_the_line():
    async def main() -> list[tuple[int, float]]:
        provider, layer = Provider(5, 5), with_rate_limit()
        done: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            await asyncio.sleep(number * 0.001)
            began = seams.monotonic()
            await asked(layer(provider))
            done.append((number, seams.monotonic() - began))

        await asyncio.gather(*[one(n) for n in range(200)])
        return done

    done = run_virtual(main())
    order = [number for number, _ in done]
    late = max(place - number for place, number in enumerate(order))
    assert late <= 16, late  # at most those who were under way together
    assert max(waited for _, waited in done) < 70


def test_runs_of_many_turns_share_the_pace():
    async def main() -> tuple[Provider, float, list[float]]:
        provider, layer = Provider(10, 10), with_rate_limit()
        ends: list[float] = []

        async def turns() -> None:
            for _ in range(4):
                await asked(layer(provider))
            ends.append(seams.monotonic())

        began = seams.monotonic()
        await asyncio.gather(*[turns() for _ in range(50)])
        return provider, seams.monotonic() - began, [end - began for end in ends]

    provider, took, ends = run_virtual(main())
    assert len(provider.served) == 200 and took < 2 * 190 / 10
    assert min(ends) > took * 0.6  # first come, first served: they go round and end together


def test_known_limits_are_kept_exactly():
    async def main() -> list[float]:
        model, layer = Shaky(), with_rate_limit(requests_per_minute=10)
        await asyncio.gather(*[asked(layer(model)) for _ in range(35)])
        return model.asked_at

    times = run_virtual(main())
    assert len(times) == 35 and spread(times, 60) == 10
    assert times[9] == times[0]  # what is allowed is not held up
    assert times[-1] - times[0] == pytest.approx(180, abs=1)


def test_tokens_a_minute_count_what_was_really_used():
    async def main() -> list[float]:
        model, layer = Shaky(), with_rate_limit(tokens_per_minute=330)  # 110 a call
        for _ in range(7):
            await asked(layer(model))
        return model.asked_at

    times = run_virtual(main())
    assert spread(times, 60) == 3 and times[-1] - times[0] < 181


def test_a_request_larger_than_the_limit_still_gets_its_turn():
    async def main() -> str:
        layer = with_rate_limit(tokens_per_minute=10)
        long = Request([Message("user", "x" * 4000)])
        return (await layer(Shaky()).respond(long, lambda event: None)).text

    assert run_virtual(main()) == "ok"


def test_who_has_waited_long_enough_is_told():
    async def main() -> None:
        model = Shaky(*[w.RateLimited("x", retry_after=50.0)] * 9)
        began = seams.monotonic()
        with pytest.raises(w.RateLimited):
            await asked(with_rate_limit(max_wait=120)(model))
        assert model.calls == 3 and seams.monotonic() - began <= 120
        layer = with_rate_limit(requests_per_minute=1, max_wait=30)
        await asked(layer(Shaky()))
        with pytest.raises(w.RateLimited, match="no turn for p:n within 30 s"):
            await asked(layer(Shaky()))

    run_virtual(main())


def test_who_leaves_the_line_holds_nobody_up():
    async def main() -> list[int]:
        layer, model, done = with_rate_limit(requests_per_minute=2), Shaky(), list[int]()

        async def one(number: int) -> None:
            await asked(layer(model))
            done.append(number)

        tasks = [asyncio.ensure_future(one(n)) for n in range(6)]
        await asyncio.sleep(1)
        for task in (tasks[2], tasks[4]):  # the first of the line, and one inside
            task.cancel()
        await asyncio.wait(tasks)
        return done

    assert run_virtual(main()) == [0, 1, 3, 5]


def test_what_a_provider_says_is_left_is_kept():
    async def main() -> None:
        gate = Gate(None, None)
        from windlass.callers.rate_limit import Ticket

        gate.hear(
            {
                "x-ratelimit-limit-requests": "100",
                "x-ratelimit-remaining-requests": "2",
                "x-ratelimit-reset-requests": "20s",
                "x-ratelimit-remaining-tokens": "junk",
            }
        )
        began = seams.monotonic()
        waits: list[float] = []
        for _ in range(3):
            await gate.enter(Ticket(1))
            waits.append(round(seams.monotonic() - began))
        assert waits == [0, 0, 20]
        other = Gate(None, None)
        other.hear(
            {
                "anthropic-ratelimit-input-tokens-remaining": "50",
                "anthropic-ratelimit-input-tokens-reset": "10",
            }
        )
        await other.enter(Ticket(40))
        await other.enter(Ticket(40))
        assert round(seams.monotonic() - began) == 30

    run_virtual(main())


def test_each_model_has_its_own_line():
    async def main() -> None:
        layer = with_rate_limit(requests_per_minute=1)
        began = seams.monotonic()
        for name in "abc":
            await asked(layer(Shaky(name=name)))
        assert seams.monotonic() == began

    run_virtual(main())


async def test_loops_of_several_threads_share_a_line():
    layer, model = with_rate_limit(), Shaky(delay=0.001)

    def other_thread() -> int:
        async def many() -> int:
            return len(await asyncio.gather(*[asked(layer(model)) for _ in range(100)]))

        return asyncio.run(many())

    there = asyncio.get_running_loop().run_in_executor(None, other_thread)
    here = await asyncio.gather(*[asked(layer(model)) for _ in range(100)])
    assert (len(here), await there) == (100, 100)
