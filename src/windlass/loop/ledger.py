"""What a run may spend and has spent: iterations, tokens, dollars, seconds.

Money is reserved before it is spent: a call is priced as an estimate, held back, and settled with
what it really used. A ledger may stand under another (a child run under its parent, every run under
the Runtime); a reserve must fit them all. A lone run may always spend what is left; siblings wait
for each other's settling and are refused only when it is gone.
"""

from __future__ import annotations

import asyncio

import msgspec

from windlass.errors import ConfigError, shown
from windlass.usage import Usage


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may spend: `w.Budget(usd=0.50, tokens=200_000, seconds=120)`.

    None means no limit of that kind.
    """

    iterations: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("iterations", "tokens", "usd", "seconds"):
            value = getattr(self, name)
            if value is not None and not _possible(value, name in ("iterations", "tokens")):
                kind = "whole number" if name in ("iterations", "tokens") else "number"
                raise ConfigError(
                    f"a limit on {name} is a {kind} of at least 0, not {shown(value)}; "
                    "None is no limit"
                )


def _possible(value: object, whole: bool) -> bool:
    kinds = int if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < _ENDLESS


_ENDLESS = 2**63  # counting so far takes longer than anybody has
NO_LIMITS = Limits()


class Spent(msgspec.Struct, frozen=True):
    """A limit that is reached: which, what was allowed, what was used."""

    limit: str
    allowed: float
    used: float


class Reserve:
    """What one call holds back until it is settled."""

    __slots__ = ("max_tokens", "tokens", "usd")

    def __init__(self, tokens: int, usd: float, max_tokens: int | None) -> None:
        self.tokens, self.usd, self.max_tokens = tokens, usd, max_tokens


class Ledger:
    """The books of one run, or of a tree of runs."""

    __slots__ = ("_held_tokens", "_held_usd", "_waiting", "calls", "input_tokens", "iterations",
                 "kept_back", "lasting", "limits", "output_tokens", "parent", "root", "seconds",
                 "tokens", "usd")  # fmt: skip

    def __init__(
        self, limits: Limits = NO_LIMITS, parent: Ledger | None = None, *, lasting: bool = False
    ) -> None:
        self.limits, self.parent = limits, parent
        self.root: Ledger = self if parent is None else parent.root  # the books above all others
        self.lasting = lasting  # it outlives the runs under it
        self.iterations, self.tokens, self.usd = 0, 0, 0.0
        self.seconds = 0.0  # that earlier drives of the run were at work
        self.kept_back = 0.0  # the share of each limit that only a closing answer may spend
        self._held_tokens, self._held_usd = 0, 0.0
        self._waiting: list[asyncio.Future[None]] | None = None
        self.calls = self.input_tokens = self.output_tokens = 0  # counted at the root alone

    def limit(self, limits: Limits) -> None:
        """Set other limits, also for calls that wait for room already."""
        self.limits = limits
        self._wake()

    def count(self, usage: Usage) -> None:
        """One more call, and its tokens."""
        self.calls += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    @property
    def metered(self) -> bool:
        """Does any limit here or above need an estimate before each call?"""
        ledger: Ledger | None = self
        while ledger is not None:
            if ledger.limits.tokens is not None or ledger.limits.usd is not None:
                return True
            ledger = ledger.parent
        return False

    @property
    def priced(self) -> bool:
        """Is there a limit in dollars, here or above?"""
        ledger: Ledger | None = self
        while ledger is not None and ledger.limits.usd is None:
            ledger = ledger.parent
        return ledger is not None

    def spent(self, *, closing: bool = False) -> Spent | None:
        """The token or dollar limit that leaves no room for another call, here or above."""
        ledger: Ledger | None = self
        while ledger is not None:
            share = 1.0 if closing else 1.0 - ledger.kept_back
            tokens, usd = ledger.limits.tokens, ledger.limits.usd
            if tokens is not None and ledger.tokens >= tokens * share:
                return Spent("tokens", tokens, ledger.tokens)
            if usd is not None and ledger.usd >= usd * share:
                return Spent("usd", usd, ledger.usd)
            ledger = ledger.parent
        return None

    def overspent(self) -> Spent | None:
        """The limit that is not only reached but crossed, here or above."""
        ledger: Ledger | None = self
        while ledger is not None:
            share = 1.0 - ledger.kept_back
            tokens, usd = ledger.limits.tokens, ledger.limits.usd
            if tokens is not None and ledger.tokens > tokens * share:
                return Spent("tokens", tokens, ledger.tokens)
            if usd is not None and ledger.usd > usd * share:
                return Spent("usd", usd, ledger.usd)
            ledger = ledger.parent
        return None

    def out_of_turns(self) -> Spent | None:
        """The iteration limit, once it is reached."""
        allowed = self.limits.iterations
        if allowed is not None and self.iterations >= allowed:
            return Spent("iterations", allowed, self.iterations)
        return None

    async def reserve(
        self,
        input_tokens: int,
        output_tokens: int,
        usd_in: float,
        usd_per_output: float,
        *,
        closing: bool = False,
    ) -> Reserve | Spent:
        """Hold back the estimated input and the reply's limit, lowered to what is left."""
        while True:
            if spent := self.spent(closing=closing):
                return spent
            if not self._siblings_hold():
                break
            ledger = self._waiting_ledger(input_tokens + output_tokens, usd_in)
            if ledger is None:
                break
            await ledger.wait_for_settling()
        room, capped = output_tokens, False
        ledger = self
        while ledger is not None:
            share = 1.0 if closing else 1.0 - ledger.kept_back
            if ledger.limits.tokens is not None:
                left = int(ledger.limits.tokens * share) - ledger.tokens - ledger._held_tokens
                room, capped = _lower(room, left - input_tokens, capped)
            if ledger.limits.usd is not None:
                left_usd = ledger.limits.usd * share - ledger.usd - ledger._held_usd - usd_in
                if left_usd <= 0:  # the question alone would cross the limit
                    return Spent("usd", ledger.limits.usd, ledger.usd + usd_in)
                if usd_per_output > 0:
                    room, capped = _lower(room, int(left_usd / usd_per_output), capped)
            ledger = ledger.parent
        reserve = Reserve(
            input_tokens + room, usd_in + room * usd_per_output, room if capped else None
        )
        self._hold(reserve.tokens, reserve.usd)
        return reserve

    def settle(self, reserve: Reserve | None, tokens: int, usd: float) -> None:
        """Replace what was held back by what was really used."""
        ledger: Ledger | None = self
        while ledger is not None:
            ledger.tokens += tokens
            ledger.usd += usd
            if reserve is not None:
                ledger._held_tokens -= reserve.tokens
                ledger._held_usd -= reserve.usd
                if ledger._waiting is not None:
                    ledger._wake()
            ledger = ledger.parent

    def restore(self, iterations: int, tokens: int, usd: float, seconds: float = 0.0) -> None:
        """A run goes on: enter what it spent before.

        Not into books that outlive runs: they have it already, or are those of another process.
        """
        self.iterations, self.seconds = iterations, seconds
        ledger: Ledger | None = self
        while ledger is not None and not ledger.lasting:
            ledger.tokens += tokens
            ledger.usd += usd
            ledger = ledger.parent

    def _hold(self, tokens: int, usd: float) -> None:
        ledger: Ledger | None = self
        while ledger is not None:
            ledger._held_tokens += tokens
            ledger._held_usd += usd
            ledger = ledger.parent

    def _siblings_hold(self) -> bool:
        ledger: Ledger | None = self
        while ledger is not None:
            if ledger._held_tokens > 0 or ledger._held_usd > 0:
                return True
            ledger = ledger.parent
        return False

    def _waiting_ledger(self, need: int, usd_in: float) -> Ledger | None:
        """The ledger whose open reserves leave no room for this call, if any."""
        ledger: Ledger | None = self
        while ledger is not None:
            limit = ledger.limits.tokens
            if (
                limit is not None
                and ledger._held_tokens > 0
                and ledger.tokens + ledger._held_tokens + need > limit
            ):
                return ledger
            usd = ledger.limits.usd
            if (
                usd is not None
                and ledger._held_usd > 0
                and ledger.usd + ledger._held_usd + usd_in >= usd
            ):
                return ledger
            ledger = ledger.parent
        return None

    async def wait_for_settling(self) -> None:
        """Until some sibling's call is settled."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(settled)
        await settled

    def _wake(self) -> None:
        """Let those who wait look again, each on its own event loop."""
        waiting, self._waiting = self._waiting, None
        for settled in waiting or ():
            try:
                settled.get_loop().call_soon_threadsafe(_set, settled)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                pass


def _set(settled: asyncio.Future[None]) -> None:
    if not settled.done():
        settled.set_result(None)


def _lower(room: int, left: int, capped: bool) -> tuple[int, bool]:
    """A reply's limit lowered to what is left; at least one token, so that a lone run may try."""
    return (max(1, left), True) if left < room else (room, capped)
