"""Budgets and rates of tenants over a whole fleet: what this process holds of them, and spends.

An allotment is reserved in the store and spent here, call by call, without asking again. Who needs
more asks for what the call needs and a share of what is left, so that the last of a budget is
reserved call by call. What is not used goes back when the tenant's last run here ends, when it had
no call for a while, or after the lease of a process that died.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final
from weakref import WeakKeyDictionary

from windlass import seams
from windlass.errors import StoreError, error_text
from windlass.fleet.limits import FleetLimits, RateLimit, find_limit
from windlass.fleet.workers import LEASE_SECONDS
from windlass.loop.ledger import Budget, Ledger, ReachedLimit, Reserve
from windlass.loop.period import bounds
from windlass.store import allotments as rows
from windlass.store.allotments import Amount, BudgetLimit
from windlass.store.base import Store
from windlass.store.wishes import Transaction

GRANT_SECONDS: Final = 5.0  # for which a part of a rate may be used
GRANTS_A_MINUTE: Final = 30  # parts into which a worker that is alone takes a rate
BEAT_SECONDS: Final = LEASE_SECONDS / 3  # after which what is held is held for another lease
SHORT_SECONDS: Final = 1.0  # for which a call rather waits than gives its slot to others
_TRIES: Final = 20
_CRUMBS: Final = 1e-9  # that sums of fractions leave

#: Parks the run that the current task belongs to until a time; False if it cannot.
park_until: ContextVar[Callable[[float], bool] | None] = ContextVar("park_until", default=None)

log = logging.getLogger("windlass.fleet")


class TenantLedgers:
    """The ledgers of tenants in this process, each with what the process holds of its limits."""

    def __init__(self, store: Store, holder: str, limits: FleetLimits, above: Ledger) -> None:
        self._store, self._holder, self._limits, self._above = store, holder, limits, above
        self._shares: dict[str, TenantShare] = {}
        self._beating: asyncio.Task[None] | None = None

    def find(self, tenant: str) -> Ledger:
        """Return the ledger above the runs of a tenant."""
        share = self._find_share(tenant)
        return self._above if share is None else share.ledger

    def enter(self, tenant: str) -> None:
        """Record that a run of the tenant is driven here."""
        share = self._find_share(tenant)
        if share is not None:
            share.runs += 1
            if self._beating is None or self._beating.done():
                self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def leave(self, tenant: str) -> None:
        """Record that it is not any more; after the last one, give back what is not used."""
        share = self._find_share(tenant)
        if share is None:
            return
        share.runs -= 1
        if share.runs == 0:
            await _log_failure(share.give_back())

    def find_due(self, tx: Transaction, tenant: str) -> float | None:
        """Return when a run of the tenant may ask a model, by its rate; None if it may now."""
        share = self._find_share(tenant)
        return None if share is None else share.find_due(tx)

    async def aclose(self) -> None:
        """Give back all that this process holds."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        for share in self._shares.values():
            await _log_failure(share.give_back())

    def _find_share(self, tenant: str) -> TenantShare | None:
        share = self._shares.get(tenant)
        if share is None:
            budget = find_limit(self._limits.budgets, tenant)
            rate = find_limit(self._limits.rates, tenant)
            if budget is None and rate is None:
                return None
            share = TenantShare(self._store, self._holder, tenant, budget, rate, self._above)
            self._shares[tenant] = share
        return share

    async def _beat(self) -> None:
        while any(share.is_used for share in self._shares.values()):
            await seams.sleep(BEAT_SECONDS)
            for share in list(self._shares.values()):
                await _log_failure(share.renew())


async def _log_failure(work: Awaitable[None]) -> None:
    """Wait for a change in the store; a failure is one for the lease to mend."""
    try:
        await work
    except StoreError as error:
        log.warning("an allotment stays until its lease ends: %s", error_text(error))


class LoopLocks:
    """A lock for each event loop: one task at a time asks the store for more."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def find(self) -> asyncio.Lock:
        """Return the lock of the running loop."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class TenantShare:
    """What this process holds of a tenant's budget and rate."""

    def __init__(
        self,
        store: Store,
        holder: str,
        tenant: str,
        budget: Budget | None,
        rate: RateLimit | None,
        above: Ledger,
    ) -> None:
        self._store, self._holder, self._tenant, self._budget = store, holder, tenant, budget
        self.ledger = Ledger(parent=above)
        self.ledger.share(budget or Budget(), self)
        self.runs = 0
        self._owed = rows.NONE  # spent, and not on the books yet
        self._held = rows.NONE  # in the store
        self._booked = rows.NONE  # spent and on the books, ever
        self._locks = LoopLocks()
        self._ahead = 0.0  # seconds by which the clock of the store is ahead
        self._until = 0.0  # by the monotonic clock; then others may have it
        self._error = 0  # tokens by which an estimate was too low, at worst
        self._asked = False  # since the last beat
        self._spent: ReachedLimit | None = None  # in this period, by all together
        self._since, self._ends = self._find_period(seams.now())
        self._leave(rows.NONE)
        self._windows = [] if rate is None else _build_windows(store, holder, tenant, rate)

    @property
    def is_used(self) -> bool:
        """Whether a run is driven here, or something is held."""
        return self.runs > 0 or self._held != rows.NONE

    # ----------------------------------------------------------------------- for the ledger

    def reached(self) -> ReachedLimit | None:
        """Return the limit that is spent in all processes together, if it is known to be."""
        return None if self._clock() >= self._ends else self._spent

    async def reserve(self, ledger: Ledger, tokens: int, usd: float) -> None:
        """Hold more in the store, if what is held has no room for so much."""
        if self._budget is None or self.reached() is not None:
            return
        self._asked = True
        if self._has_room(tokens, usd):
            return
        async with self._locks.find():
            if not self._has_room(tokens, usd):
                await self._ask(Amount(tokens, usd))

    async def pace(self, tokens: int) -> int:
        """Wait until one more request of so many tokens keeps the rate; the tokens it counts with."""
        taken = 0
        for window in self._windows:
            if window.kind == "requests":
                await window.take(1)
            else:
                taken = await window.take(tokens + self._error)
        return taken

    def correct(self, reserve: Reserve, tokens: int) -> None:
        """Count a request for the rate with the tokens that it really used."""
        self._error = max(self._error, tokens - reserve.tokens)
        for window in self._windows:
            if window.kind == "tokens":
                window.correct(tokens - reserve.paced)

    def owe(self, tokens: int, usd: float) -> None:
        """Hold what was spent until it is on the books of the store; then less than nothing."""
        amount = Amount(tokens, usd)
        self._owed += amount
        if tokens < 0 or usd < 0:
            self._booked -= amount

    def _has_room(self, tokens: int, usd: float) -> bool:
        left_tokens, left_usd = self.ledger.left
        in_time = seams.monotonic() < self._until and self._clock() < self._ends
        return in_time and left_tokens >= tokens and left_usd >= usd

    def _clock(self) -> float:
        return seams.now() + self._ahead

    # ----------------------------------------------------------------------- the store

    async def renew(self) -> None:
        """Hold what is needed for a further lease; what nobody asked for since the last goes back."""
        asked, self._asked = self._asked, False
        if self._held == rows.NONE:
            return
        if not asked:
            await self.lower()
            return
        began = seams.monotonic()

        def renew(tx: Transaction) -> None:
            until = tx.read_clock() + LEASE_SECONDS
            rows.renew_budget(tx, (self._tenant,), self._holder, until)

        await self._store.commit(renew)
        self._until = max(self._until, began + LEASE_SECONDS)

    async def give_back(self) -> None:
        """Give back what no call under way holds, of the budget and of the rate."""
        for window in self._windows:
            await window.give_back()
        if self._held != rows.NONE:
            await self.lower()

    def find_due(self, tx: Transaction) -> float | None:
        """Return when a request has room, by the rate; None if it has now."""
        due = [found for one in self._windows if (found := one.find_due(tx)) is not None]
        return max(due) if due else None

    @property
    def _kept(self) -> Amount:
        """What must stay held: calls under way, and those that are not on the books yet."""
        tokens, usd = self.ledger.held
        budget = self._budget or Budget()
        tokens, usd = tokens + self._owed.tokens, usd + self._owed.usd
        return Amount(
            0 if budget.tokens is None else max(0, tokens),
            0.0 if budget.usd is None or usd < _CRUMBS else usd,
        )

    @property
    def _limit(self) -> BudgetLimit:
        budget = self._budget or Budget()
        return BudgetLimit(
            tenant=self._tenant, since=self._since, tokens=budget.tokens, usd=budget.usd
        )

    async def _ask(self, need: Amount) -> None:
        """Reserve for a call in the store, and set what is left here."""
        for _ in range(_TRIES):
            began, here = seams.monotonic(), seams.now()
            number, now = await self._store.consult(
                lambda tx: (rows.read_number(tx, self._tenant), tx.read_clock())
            )
            self._turn_over(now, now - here)
            # Nobody spends of it meanwhile. What is on the books from here on is held as well.
            self._leave(rows.NONE)
            kept, booked = self._kept, self._booked
            spent = Amount(*(await self._store.spent(self._since, self._tenant)))
            body = self._build_reserving(number, spent, kept, need)
            answer = await self._store.commit(body)
            if answer is not None:
                self._until, self._held = began + LEASE_SECONDS, answer.held
                self._leave(answer.held - self._kept - (self._booked - booked))
                self._note_spent(spent)
                return
            await seams.sleep(0.01 * seams.rng.random())
        raise StoreError(f"the budget of tenant {self._tenant!r} changes too often to reserve")

    def _build_reserving(
        self, number: int, spent: Amount, kept: Amount, need: Amount
    ) -> Callable[[Transaction], rows.Allotted | None]:
        limit = self._limit

        def reserve(tx: Transaction) -> rows.Allotted | None:
            return rows.reserve_budget(
                tx,
                limit,
                self._holder,
                number=number,
                spent=spent,
                kept=kept,
                need=need,
                now=tx.read_clock(),
                lease=LEASE_SECONDS,
            )

        return reserve

    async def lower(self) -> None:
        """Give back what no call under way holds, of the budget."""
        async with self._locks.find():
            self._leave(rows.NONE)  # nobody may spend what is given back
            limit, kept = self._limit, self._kept
            self._held = kept

            def lower(tx: Transaction) -> None:
                now = tx.read_clock()
                rows.lower_budget(tx, limit, self._holder, kept, now=now, lease=LEASE_SECONDS)

            await self._store.commit(lower)

    def _leave(self, free: Amount) -> None:
        """Let so much be left here, beside what calls under way hold."""
        budget, ledger = self._budget or Budget(), self.ledger
        tokens, usd = ledger.held
        if budget.tokens is not None:
            ledger.tokens = budget.tokens - max(0, free.tokens) - tokens
        if budget.usd is not None:
            ledger.usd = budget.usd - max(0.0, free.usd) - usd

    def _note_spent(self, spent: Amount) -> None:
        limit = self._limit
        if limit.tokens is not None and spent.tokens >= limit.tokens:
            self._spent = ReachedLimit("tokens", limit.tokens, spent.tokens)
        elif limit.usd is not None and spent.usd >= limit.usd:
            self._spent = ReachedLimit("usd", limit.usd, spent.usd)

    def _find_period(self, now: float) -> tuple[float, float]:
        return bounds("ever" if self._budget is None else self._budget.per or "ever", now)

    def _turn_over(self, now: float, ahead: float) -> None:
        """Begin a new period once the last is over, by the clock of the store."""
        self._ahead = ahead
        since, self._ends = self._find_period(now)
        if since != self._since:
            self._since, self._spent = since, None


class RateWindow:
    """A part of a tenant's rate: so many requests or tokens that may be used for a few seconds."""

    def __init__(self, store: Store, holder: str, tenant: str, kind: str, limit: int) -> None:
        self._store, self._holder, self._tenant = store, holder, tenant
        self.kind, self._limit = kind, limit
        self._locks = LoopLocks()
        self._grant: str | None = None
        self._left = self._used = 0
        self._until = self._used_at = 0.0
        self._past: dict[str, tuple[int, float]] = {}  # used of earlier grants, and when
        self._changed: set[str] = set()  # those that used less, which the store does not know

    async def take(self, amount: int) -> int:
        """Use some of the rate, or wait until there is room; return how much."""
        amount = min(amount, self._limit)
        while not self._has_room(amount):
            async with self._locks.find():
                wait = None if self._has_room(amount) else await self._ask(amount)
            if wait is not None:
                await _wait(*wait)
        self._left -= amount
        self._used += amount
        self._used_at = seams.now()
        return amount

    def correct(self, more: int) -> None:
        """Use more, or less than was taken; what was taken from an earlier grant too."""
        here = max(more, -self._used)
        self._left -= here
        self._used += here
        less = here - more
        for grant in reversed(list(self._past)):
            if less <= 0:
                return
            used, at = self._past[grant]
            self._past[grant] = (max(0, used - less), at)
            self._changed.add(grant)
            less -= used

    def find_due(self, tx: Transaction) -> float | None:
        """Return when one more has room; None if it has now."""
        if self._has_room(1):
            return None
        return rows.find_rate_due(tx, self._tenant, self.kind, self._limit, tx.read_clock())

    async def give_back(self) -> None:
        """Give back what is not used."""
        if self._grant is not None or self._changed:
            async with self._locks.find():
                await self._store.commit(self._build_settling())

    def _has_room(self, amount: int) -> bool:
        return self._left >= amount and seams.monotonic() < self._until

    def _build_settling(self) -> Callable[[Transaction], None]:
        """Count what was used of grants; from now on nobody uses them."""
        here = seams.now()
        if self._grant is not None:
            self._past[self._grant] = (self._used, self._used_at or here)
            self._changed.add(self._grant)
        self._grant, self._left, self._used = None, 0, 0
        past = {g: one for g, one in self._past.items() if here - one[1] < rows.MINUTE}
        changed = [(g, *past[g]) for g in self._changed if g in past]
        self._past, self._changed = past, set()

        def settle(tx: Transaction) -> None:
            now = tx.read_clock()
            for grant, used, at in changed:
                rows.settle_rate(tx, self._tenant, self.kind, grant, used, now - here + at)

        return settle

    async def _ask(self, amount: int) -> tuple[float, float] | None:
        """Reserve more; without room, return for how long to wait, and until when."""
        began, settle = seams.monotonic(), self._build_settling()
        grant, more = f"{self._holder}/{seams.new_id('grant')}", self._limit // GRANTS_A_MINUTE

        def reserve(tx: Transaction) -> tuple[rows.RateGrant, float]:
            settle(tx)
            now = tx.read_clock()
            found = rows.reserve_rate(
                tx,
                self._tenant,
                self.kind,
                grant,
                limit=self._limit,
                need=amount,
                more=more,
                now=now,
                until=now + GRANT_SECONDS,
            )
            return found, now

        found, now = await self._store.commit(reserve)
        if not found.amount:
            return found.due - now, found.due
        self._grant, self._left = grant, found.amount
        self._until = began + GRANT_SECONDS
        return None


def _build_windows(store: Store, holder: str, tenant: str, rate: RateLimit) -> list[RateWindow]:
    kinds = {"requests": rate.requests_per_minute, "tokens": rate.tokens_per_minute}
    return [
        RateWindow(store, holder, tenant, kind, limit)
        for kind, limit in kinds.items()
        if limit is not None
    ]


async def _wait(seconds: float, due: float) -> None:
    """Wait for room: here for a moment, else the run is parked and its slot is free."""
    park = park_until.get()
    if seconds > SHORT_SECONDS and park is not None and park(due):
        await asyncio.get_running_loop().create_future()  # it is cancelled
    await seams.sleep(max(seconds, 0.001))
