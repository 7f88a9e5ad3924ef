"""Generated schedules of workers that spend one tenant's budget: calls, returns and deaths.

Whatever happens, the sum on the books is at most the budget, if no call takes more than was thought,
and else at most one call of each worker above it. What nobody spent can be spent in the end.
"""

import asyncio
import random

import pytest

import windlass as w
from tests.sizes import pick_size
from windlass import seams
from windlass.fleet.allotments import TenantLedgers
from windlass.fleet.limits import check_limits
from windlass.messages import Message, Text
from windlass.runtime.runtime import Runtime
from windlass.store.memory import MemoryStore
from windlass.store.model_calls import ModelCall
from windlass.store.wishes import begin_drive, clear_wish, raise_wish, read_wish
from windlass.testing import run_virtual

PRICE = 0.001
REPLY = 100  # tokens that a reply may have
QUESTION = 1
CRUMBS = 1e-9
DEAREST = 150 * PRICE  # of a call whose estimate was too low
ACME = w.Caller("ann", tenant="acme")
SEEDS = pick_size(24, 2_000, proof="BUDGETS")


class SlowStore(MemoryStore):
    """A store whose answers take a while, so that what others do comes in between."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng

    async def _wait(self):
        await asyncio.sleep(self.rng.choice((0.0, 0.0, 0.1, 2.0)))

    async def commit(self, body):
        await self._wait()
        done = await super().commit(body)
        await self._wait()
        return done

    async def spent(self, since, tenant=None):
        await self._wait()
        found = await super().spent(since, tenant)
        await self._wait()
        return found

    async def record_calls(self, calls, replaces=()):
        await self._wait()
        await super().record_calls(calls, replaces)
        await self._wait()


class Costly(w.Model):
    """A model that takes its time, and uses more or less than was thought."""

    provider, name = "test", "costly"

    def __init__(self, worker, rng, most):
        self.worker, self.rng, self.most = worker, rng, most
        self.under_way = {}  # the longest replies to requests that are not answered yet

    def price(self, usage):
        return usage.total_tokens * PRICE

    async def respond(self, request, emit):
        most = request.frame.settings.max_tokens
        self.under_way[id(request)] = most
        await asyncio.sleep(self.rng.choice((0.1, 5.0, 20.0, 70.0)))
        if self.worker.is_dead:
            await asyncio.Event().wait()  # nobody hears the answer
        del self.under_way[id(request)]
        used = self.rng.randint(1, round(most * self.most))
        return w.Response(Message("assistant", (Text("ok"),)), w.Usage(QUESTION, used))


class Process:
    """A process of the fleet: a Runtime on the common store, and what it holds of the budget."""

    def __init__(self, number, store, limits, seed, most):
        self.name, self.store, self.is_dead = f"host/{number}/worker", store, False
        self.rng = random.Random(seed)
        self.runtime = Runtime(store=store, environ={})
        self.ledgers = TenantLedgers(store, self.name, limits, self.runtime.ledger)
        self.runtime.find_tenant_ledger = self.ledgers.find
        self.model = Costly(self, self.rng, most)
        self.refused = 0

    async def call(self):
        """Make one call, unless the budget has no room for it."""
        try:
            with self.runtime.as_current():
                await w.llm_call("go", model=self.model, max_tokens=REPLY, caller=ACME)
        except w.BudgetExceeded:
            self.refused += 1

    async def run(self, calls):
        """Drive one session: some calls one after the other, with pauses."""
        session = f"{self.name}/{self.rng.getrandbits(60)}"
        await self._begin(session)
        if self.is_dead:
            await asyncio.Event().wait()
        self.ledgers.enter("acme")
        for _ in range(calls):
            await self.call()
            await asyncio.sleep(self.rng.choice((0.0, 0.5, 12.0)))
            if self.is_dead:
                await asyncio.Event().wait()
        await self.ledgers.leave("acme")
        await self._end(session)

    async def _begin(self, session):
        def begin(tx):
            raise_wish(tx, session, agent="a", tenant="acme")
            begin_drive(tx, read_wish(tx, session), self.name, 1)

        await self.store.commit(begin)

    async def _end(self, session):
        await self.store.commit(lambda tx: clear_wish(tx, session, 1))

    def die(self):
        """End without a word: nothing is renewed, given back or put on the books any more."""
        self.is_dead = True
        if self.ledgers._beating is not None:
            self.ledgers._beating.cancel()


async def take_over(process, store):
    """Put what was under way in a lost process on the books, as whoever resumes it does."""
    lost = [
        ModelCall(
            at=seams.now(),
            provider="test",
            model="costly",
            input_tokens=QUESTION,
            output_tokens=reply,
            cost_usd=(QUESTION + reply) * PRICE,
            tenant="acme",
            outcome="interrupted",
        )
        for reply in process.model.under_way.values()
    ]
    await store.record_calls(lost)
    await store.commit(
        lambda tx: tx.keep(
            "UPDATE windlass_wishes SET since = NULL, due = NULL WHERE worker = ?", (process.name,)
        )
    )


async def play(seed, most):
    """Play one schedule; return what it spent, and what was spent of what was left after it.

    A reply has at most `most` times the tokens that it may have.
    """
    rng = random.Random(seed)
    store = SlowStore(random.Random(seed))
    budget = rng.choice((0.05, 0.4, 2.0, 9.0))
    limits = check_limits({"budgets": {"acme": {"usd": budget, "per": "ever"}}})
    processes = [
        Process(number, store, limits, rng.random(), most) for number in range(rng.randint(1, 5))
    ]
    runs = []
    for process in processes:
        for _ in range(rng.choice((1, 3, 12))):
            runs.append(asyncio.create_task(process.run(rng.randint(1, 6))))
    for process in processes:
        if rng.random() < 0.4:
            await asyncio.sleep(rng.choice((0.0, 3.0, 30.0)))
            process.die()
            await asyncio.sleep(rng.choice((0.0, 40.0)))
            await take_over(process, store)
    await asyncio.sleep(2_000)
    spent = (await store.spent(0.0, "acme"))[1]
    last = Process(99, store, limits, rng.random(), most)
    for _ in range(200):
        await last.call()
        if last.refused:
            break
    after = (await store.spent(0.0, "acme"))[1]
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    for process in (*processes, last):
        if not process.is_dead:
            await process.ledgers.aclose()
    return budget, len(processes), spent, after


@pytest.mark.parametrize("part", range(3))
def test_budget_holds_and_nothing_is_lost(part):
    for seed in range(part, SEEDS, 3):
        budget, _, spent, after = run_virtual(play(seed, 1.0), seed)
        assert spent <= budget + CRUMBS, f"seed {seed}"
        # A reply for which there is hardly room is not asked for.
        assert budget - (QUESTION + 16) * PRICE <= after <= budget + CRUMBS, f"seed {seed}"


def test_wrong_estimates_cost_one_call_of_each_worker():
    over = []
    for seed in range(SEEDS // 3):
        budget, workers, spent, after = run_virtual(play(seed, 1.3), seed)
        assert spent <= budget + workers * DEAREST, f"seed {seed}"
        assert after <= budget + (workers + 1) * DEAREST, f"seed {seed}"
        over.append(spent - budget)
    assert any(more > 0 for more in over)  # else the test above says it all


def test_schedules_have_deaths_and_refusals():
    """The tests above would hold if nothing happened: here is what does."""
    rngs = [run_virtual(play(seed, 1.0), seed) for seed in range(6)]
    assert len({budget for budget, *_ in rngs}) > 1
    assert any(spent > 0.9 * budget for budget, _, spent, _ in rngs)
    assert any(after > spent for _, _, spent, after in rngs)
