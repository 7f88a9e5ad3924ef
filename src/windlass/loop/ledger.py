"""The ledger of a run: limits and spending in iterations, tokens, dollars, seconds.

Money is reserved before it is spent: a call is priced as an estimate, held back, and settled with
what it really used. A ledger may stand under another (a child run under its parent, every run under
the Runtime); a reserve must fit them all. A lone run may always spend what is left; siblings wait
for each other's settling and are refused only when it is gone. What calls took beyond their
estimates is held back for those that run beside others, so that they do not all err at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.records import NamedFields
from windlass.usage import Usage

if TYPE_CHECKING:
    from windlass.loop.period import Period

REPLY_TOKENS = 16384  # default tokens of a reply
MIN_REPLY_TOKENS = 16  # a reply for which there is less room is not asked for


class Budget(
    msgspec.Struct,
    metaclass=NamedFields,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """The limits of a run: `w.Budget(usd=0.50, tokens=200_000, seconds=120)`.

    None means no limit of that kind. `per` is for a Runtime only: `w.Budget(usd=20, per="day")`
    counts what the cost records of its store have for this day (UTC).
    """

    iterations: int | None = None
    """Turns that a run may take."""
    tokens: int | None = None
    """Tokens that a run may use, input and output."""
    usd: float | None = None
    """Dollars that a run may cost."""
    seconds: float | None = None
    """Seconds that a run may take."""
    per: Literal["day", "month", "ever"] | None = None
    """The period over which a Runtime counts."""

    def __post_init__(self) -> None:
        for name in ("iterations", "tokens", "usd", "seconds"):
            value = getattr(self, name)
            if value is not None and not _possible(value, name in ("iterations", "tokens")):
                kind = "whole number" if name in ("iterations", "tokens") else "number"
                raise ConfigError(
                    f"a limit on {name} is a {kind} of at least 0, not {safe_repr(value)}; "
                    "None is no limit"
                )
        per: Any = self.per
        if per is not None and (not isinstance(per, str) or per not in PERIODS):
            raise ConfigError(f"a budget is per {', '.join(PERIODS)} or None, not {safe_repr(per)}")


PERIODS = ("day", "month", "ever")


def _possible(value: object, whole: bool) -> bool:
    kinds = int if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < _ENDLESS


_ENDLESS = 2**63  # more than can ever be counted
NO_LIMITS = Budget()
_NO_ERROR = (0, 0.0)


class ReachedLimit(msgspec.Struct, frozen=True):
    """A limit that is reached: which, what was allowed, what was used."""

    limit: str
    allowed: float
    used: float
    with_question: bool = False  # `used` has the question of the call that finds no room


class Reserve:
    """The amount that one call holds back until it is settled."""

    __slots__ = (
        "held_tokens",
        "held_usd",
        "input_tokens",
        "kind",
        "limit",
        "max_tokens",
        "output_tokens",
        "paced",
        "usd",
    )

    def __init__(self, input_tokens: int, output_tokens: int, usd: float) -> None:
        self.input_tokens, self.output_tokens, self.usd = input_tokens, output_tokens, usd
        self.held_tokens, self.held_usd = input_tokens + output_tokens, usd
        self.kind = ""  # which model is asked: errors of estimates are learned for each
        self.max_tokens: int | None = None  # the reply's limit, where it had to be lowered
        self.limit: str | None = None  # by which limit
        self.paced = 0  # tokens with which it counts for a rate

    @property
    def tokens(self) -> int:
        """The estimated prompt and the longest reply."""
        return self.input_tokens + self.output_tokens


class Allotment(Protocol):
    """What this process may spend of a limit that others spend from too, by the store."""

    def reached(self) -> ReachedLimit | None:
        """Return the limit that is spent in all processes together, if it is known to be."""
        ...

    async def reserve(self, ledger: Ledger, tokens: int, usd: float) -> None:
        """Hold more in the store, if what is held has no room for so much; set what is left."""
        ...

    async def pace(self, tokens: int) -> int:
        """Wait until one more request of so many tokens keeps the rate; the tokens it counts with."""
        ...

    def correct(self, reserve: Reserve, tokens: int) -> None:
        """Count a request for the rate with the tokens that it really used."""
        ...

    def owe(self, tokens: int, usd: float) -> None:
        """Hold what was spent until it is on the books of the store; then less than nothing."""
        ...


class Ledger(msgspec.Struct, eq=False):
    """The ledger of one run, or of a tree of runs: `Ledger(limits, parent)`."""

    _limits: Budget = NO_LIMITS
    parent: Ledger | None = None
    max_iterations: int | None = None
    spends: bool = False  # tokens or dollars are limited here
    limited: bool = False  # at the root: a ledger below limits tokens or dollars, or did
    iterations: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0  # that earlier drives of the run were at work
    kept_back: float = 0.0  # the share of each limit that only a closing answer may spend
    period: Period | None = None  # where what is on the books of a store counts
    allotment: Allotment | None = None  # where other processes spend from its limits too
    allotted: bool = False  # at the root: a ledger below has an allotment
    _held_tokens: int = 0
    _held_usd: float = 0.0
    _open: int = 0  # calls that hold something
    # of estimates, the worst so far for each kind of call; None while the first is under way
    _errors: dict[str, tuple[int, float] | None] | None = None
    _waiting: list[asyncio.Future[None]] | None = None
    # counted at the root alone, since it was made
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    paid_usd: float = 0.0
    root: Ledger = cast("Any", None)  # the books above all others

    def __post_init__(self) -> None:
        limits, parent = self._limits, self.parent
        self.root = self if parent is None else parent.root
        self.max_iterations = limits.iterations
        if limits.tokens is not None or limits.usd is not None:
            self.spends = self.root.limited = True

    @property
    def limits(self) -> Budget:
        """The limits from here."""
        return self._limits

    @limits.setter
    def limits(self, limits: Budget) -> None:
        self._limits, self.max_iterations = limits, limits.iterations
        self.spends = limits.tokens is not None or limits.usd is not None
        if self.spends:
            self.root.limited = True

    def limit(self, limits: Budget) -> None:
        """Set other limits, also for calls that wait for room already."""
        self.limits = limits
        self.wake()

    def count(self, usage: Usage) -> None:
        """Count one more call and its tokens."""
        self.calls += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    @property
    def metered(self) -> bool:
        """Whether any limit here or above needs an estimate before each call."""
        ledger: Ledger | None = self if self.root.limited else None
        while ledger is not None:
            if ledger.spends:  # tokens or dollars are limited
                return True
            ledger = ledger.parent
        return False

    @property
    def shared(self) -> bool:
        """Whether others spend from a limit above as well."""
        return self.parent is not None and self.parent.metered

    @property
    def priced(self) -> bool:
        """Whether there is a limit in dollars, here or above."""
        ledger: Ledger | None = self
        while ledger is not None and ledger.limits.usd is None:
            ledger = ledger.parent
        return ledger is not None

    def reached_limit(self, *, closing: bool = False) -> ReachedLimit | None:
        """Find the token or dollar limit that leaves no room for another call, here or above."""
        ledger: Ledger | None = self
        while ledger is not None:
            if ledger.period is not None:
                ledger.period.turn_over(ledger)
            share = 1.0 if closing else 1.0 - ledger.kept_back
            tokens, usd = ledger.limits.tokens, ledger.limits.usd
            if ledger.allotment is not None:
                if spent := ledger.allotment.reached():
                    return spent
            elif tokens is not None and ledger.tokens >= tokens * share:
                return ReachedLimit("tokens", tokens, ledger.tokens)
            elif usd is not None and ledger.usd >= usd * share:
                return ReachedLimit("usd", usd, ledger.usd)
            ledger = ledger.parent
        return None

    def exceeded_limit(self) -> ReachedLimit | None:
        """Find the limit that is not only reached but crossed, here or above."""
        ledger: Ledger | None = self
        while ledger is not None:
            share = 1.0 - ledger.kept_back
            tokens, usd = ledger.limits.tokens, ledger.limits.usd
            if ledger.allotment is not None:
                if spent := ledger.allotment.reached():
                    return spent
            elif tokens is not None and ledger.tokens > tokens * share:
                return ReachedLimit("tokens", tokens, ledger.tokens)
            elif usd is not None and ledger.usd > usd * share:
                return ReachedLimit("usd", usd, ledger.usd)
            ledger = ledger.parent
        return None

    def find_allotment(self) -> Allotment | None:
        """Return the allotment here or above."""
        ledger: Ledger | None = self if self.root.allotted else None
        while ledger is not None and ledger.allotment is None:
            ledger = ledger.parent
        return None if ledger is None else ledger.allotment

    def share(self, budget: Budget, allotment: Allotment) -> None:
        """Spend from limits that other processes spend from too."""
        self.limits, self.allotment = budget, allotment
        self.spends = self.root.limited = self.root.allotted = True

    @property
    def left(self) -> tuple[float, float]:
        """Tokens and dollars that are neither spent nor held; endless without a limit."""
        tokens, usd = self.limits.tokens, self.limits.usd
        return (
            _ENDLESS if tokens is None else tokens - self.tokens - self._held_tokens,
            _ENDLESS if usd is None else usd - self.usd - self._held_usd,
        )

    @property
    def held(self) -> tuple[int, float]:
        """Tokens and dollars that calls under way hold."""
        return self._held_tokens, self._held_usd

    def standing(self, limit: str) -> ReachedLimit:
        """Return how the nearest limit of this name stands, here or above."""
        ledger: Ledger | None = self
        while ledger is not None:
            allowed = getattr(ledger.limits, limit, None)
            if allowed is not None:
                return ReachedLimit(limit, allowed, getattr(ledger, limit))
            ledger = ledger.parent
        return ReachedLimit(limit, 0, 0)

    def out_of_turns(self) -> ReachedLimit | None:
        """Return the iteration limit, once it is reached."""
        allowed = self.limits.iterations
        if allowed is not None and self.iterations >= allowed:
            return ReachedLimit("iterations", allowed, self.iterations)
        return None

    async def reserve(
        self,
        input_tokens: int,
        output_tokens: int,
        usd_in: float,
        usd_per_output: float,
        *,
        closing: bool = False,
        kind: str = "",
        wait: bool = True,
    ) -> Reserve | ReachedLimit:
        """Hold back the estimated input and the reply's limit, lowered to what is left.

        `kind` says which model is asked. A call for whose question, or for a useful reply to it,
        there is no room is refused; without `wait`, also one that does not fit beside others.
        """
        period = self.root.period
        whole = Reserve(input_tokens, output_tokens, usd_in + output_tokens * usd_per_output)
        while True:
            if period is not None:
                await period.refresh(self.root)
            if self.root.allotted:
                await self._reserve_above(whole)
            if spent := self.reached_limit(closing=closing):
                return spent
            ledger = self._in_the_way(whole, kind, wait)
            if ledger is None:
                break
            if not wait:
                return self.standing("tokens" if ledger.limits.usd is None else "usd")
            await ledger.wait_for_settling()
        room, limit = output_tokens, None
        least = min(output_tokens, MIN_REPLY_TOKENS)
        ledger = self
        while ledger is not None:
            share = 1.0 if closing else 1.0 - ledger.kept_back
            tokens, usd = ledger.limits.tokens, ledger.limits.usd
            if tokens is not None:
                left = int(tokens * share) - ledger.tokens - ledger._held_tokens - input_tokens
                if left < least:
                    return ReachedLimit("tokens", tokens, ledger.tokens + input_tokens, True)
                if left < room:
                    room, limit = left, "tokens"
            if usd is not None:
                left_usd = usd * share - ledger.usd - ledger._held_usd - usd_in
                if left_usd <= 0 or left_usd < least * usd_per_output:
                    return ReachedLimit("usd", usd, ledger.usd + usd_in, True)
                if left_usd < room * usd_per_output:
                    room, limit = int(left_usd / usd_per_output), "usd"
            ledger = ledger.parent
        reserve = Reserve(input_tokens, room, usd_in + room * usd_per_output)
        reserve.kind = kind
        if limit is not None:
            reserve.limit, reserve.max_tokens = limit, room
        self._hold(reserve)
        return reserve

    async def _reserve_above(self, whole: Reserve) -> None:
        """Let allotments above hold enough for a call, as far as others leave it."""
        ledger: Ledger | None = self
        while ledger is not None:
            if ledger.allotment is not None:
                await ledger.allotment.reserve(ledger, whole.tokens, whole.usd)
            ledger = ledger.parent

    def settle(self, reserve: Reserve | None, tokens: int, usd: float) -> None:
        """Replace what was held back by what was really used."""
        ledger: Ledger | None = self
        while ledger is not None:
            ledger.tokens += tokens
            if usd:
                ledger.usd += usd
            if reserve is not None:
                ledger._held_tokens -= reserve.held_tokens
                ledger._held_usd -= reserve.held_usd
                ledger._open -= 1
                if ledger._open == 0:
                    ledger._held_usd = 0.0  # sums of fractions leave crumbs
                ledger._learn(reserve, tokens, usd)
                if ledger._waiting is not None:
                    ledger.wake()
            ledger = ledger.parent
        if usd:
            self.root.paid_usd += usd

    def restore(self, iterations: int, tokens: int, usd: float, seconds: float = 0.0) -> None:
        """Enter what a run that goes on and its children spent before.

        Not into the books above: those of a parent have it already, from the journals of its tree.
        """
        self.iterations, self.seconds = iterations, seconds
        self.tokens += tokens
        self.usd += usd

    def _hold(self, reserve: Reserve) -> None:
        """Hold the reserve back, and the error that estimates of its kind had so far."""
        ledger: Ledger | None = self
        error_tokens, error_usd = 0, 0.0
        while ledger is not None:
            if ledger.limits.tokens is not None or ledger.limits.usd is not None:
                error = ledger._first_of(reserve.kind)
                error_tokens, error_usd = max(error_tokens, error[0]), max(error_usd, error[1])
            ledger = ledger.parent
        reserve.held_tokens += error_tokens
        reserve.held_usd += error_usd
        ledger = self
        while ledger is not None:
            ledger._held_tokens += reserve.held_tokens
            ledger._held_usd += reserve.held_usd
            ledger._open += 1
            ledger = ledger.parent

    def _first_of(self, kind: str) -> tuple[int, float]:
        """Return the worst error of estimates of this kind; mark its first call as running."""
        if self._errors is None:
            self._errors = {}
        return self._errors.setdefault(kind, None) or _NO_ERROR

    def _learn(self, reserve: Reserve, tokens: int, usd: float) -> None:
        """Record by how much an estimate was too low; a failed call does not count."""
        if self._errors is None:
            return
        known = self._errors.get(reserve.kind)
        if tokens > 0:
            worst = known or _NO_ERROR
            self._errors[reserve.kind] = (
                max(worst[0], tokens - reserve.tokens),
                max(worst[1], usd - reserve.usd),
            )
        elif known is None:
            self._errors.pop(reserve.kind, None)

    def _in_the_way(self, whole: Reserve, kind: str, wait: bool) -> Ledger | None:
        """Find the ledger whose open calls must settle before this one may be made.

        While others are open, a call must fit beside them with its whole reply and the error that
        such calls had so far. As long as no call of its kind is settled, one is made at a time.
        """
        ledger: Ledger | None = self
        while ledger is not None:
            tokens, usd = ledger.limits.tokens, ledger.limits.usd
            if ledger._open > 0 and (tokens is not None or usd is not None):
                error = _NO_ERROR
                if ledger._errors is not None:
                    error = ledger._errors.get(kind, _NO_ERROR)
                if error is None:
                    if wait:
                        return ledger
                    error = _NO_ERROR
                held = ledger.tokens + ledger._held_tokens + whole.tokens + error[0]
                if tokens is not None and held > tokens:
                    return ledger
                held_usd = ledger.usd + ledger._held_usd + whole.usd + error[1]
                if usd is not None and held_usd > usd:
                    return ledger
            ledger = ledger.parent
        return None

    async def wait_for_settling(self) -> None:
        """Wait until some sibling's call is settled."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(settled)
        await settled

    def wake(self) -> None:
        """Let those who wait look again, each on its own event loop."""
        waiting, self._waiting = self._waiting, None
        for settled in waiting or ():
            try:
                settled.get_loop().call_soon_threadsafe(_set, settled)
            except RuntimeError:  # its loop is closed: nothing waits there any more
                pass


def _set(settled: asyncio.Future[None]) -> None:
    if not settled.done():
        settled.set_result(None)
