"""Allotments: what each process holds of a limit that a tenant has over all of them.

A process reserves an allotment in one short transaction, spends it without asking again, and gives
back what is left. What was spent is on the books of model calls: an allotment covers only what is
not there yet, so the two together never count a call twice for long, and never not at all. All
functions take the transaction of a body; the same text is SQL for SQLite and for Postgres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.store.wishes import TABLE as WISHES
from windlass.store.wishes import Transaction

TABLE: Final = "windlass_allotments"
# A row without a holder is that of the tenant: its number says whether an allotment was lowered.
TABLES: Final = """
CREATE TABLE windlass_allotments (
    tenant text NOT NULL,
    kind text NOT NULL,
    holder text NOT NULL,
    since float8 NOT NULL,
    tokens bigint NOT NULL DEFAULT 0,
    usd float8 NOT NULL DEFAULT 0,
    number bigint NOT NULL DEFAULT 0,
    until float8 NOT NULL,
    PRIMARY KEY (tenant, kind, holder)
);
"""
BUDGET: Final = "budget"
MINUTE: Final = 60.0
#: Leases after which the allotment of a lost process comes back, though nobody drives its sessions.
MOST_LEASES: Final = 10
#: The share of what is left that a process takes beyond what it needs now.
SHARE: Final = 16
_OWN: Final = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`


class Amount(msgspec.Struct, frozen=True):
    """Tokens and dollars."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        """Return the difference, which may be below zero."""
        return Amount(self.tokens - other.tokens, self.usd - other.usd)


NONE: Final = Amount()


class BudgetLimit(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may spend from a time on; None is no limit of that kind."""

    tenant: str
    since: float
    tokens: int | None = None
    usd: float | None = None


class Allotted(msgspec.Struct, frozen=True):
    """What a process holds now, what the others hold, and the number of this change."""

    held: Amount
    others: Amount
    number: int


def read_number(tx: Transaction, tenant: str, kind: str = BUDGET) -> int:
    """Return the number of the last change by which an allotment became less."""
    row = tx.keep(
        f"SELECT number FROM {TABLE} WHERE tenant = ? AND kind = ? AND holder = '' {_OWN}",
        (tenant, kind),
    ).fetchone()
    return 0 if row is None else msgspec.convert(row[0], int)


def reserve_budget(
    tx: Transaction,
    limit: BudgetLimit,
    holder: str,
    *,
    number: int,
    spent: Amount,
    kept: Amount,
    need: Amount,
    now: float,
    lease: float,
) -> Allotted | None:
    """Hold so much of a tenant's budget that `need` fits beside what this process keeps.

    `spent` is what the books say, read after `number` was: None if an allotment became less since
    then, for what it gave up may be on the books only now. `kept` are calls under way here, and
    those that are not on the books yet; they stay held, whatever is left. The answer may hold less
    than was asked for.
    """
    if read_number(tx, limit.tenant) != number:
        return None
    _reclaim(tx, limit, now, lease)
    others = _sum_others(tx, limit, holder)
    room = Amount(
        _room(limit.tokens, spent.tokens + others.tokens),
        _room_usd(limit.usd, spent.usd + others.usd),
    )
    wanted = kept + need
    held = Amount(
        max(
            kept.tokens,
            min(room.tokens, wanted.tokens + max(0, room.tokens - wanted.tokens) // SHARE),
        )
        if limit.tokens is not None
        else 0,
        max(kept.usd, min(room.usd, wanted.usd + max(0.0, room.usd - wanted.usd) / SHARE))
        if limit.usd is not None
        else 0.0,
    )
    _hold(tx, limit, holder, held, now + lease)
    return Allotted(held, others, _raise_number(tx, limit.tenant, number, now))


def lower_budget(
    tx: Transaction, limit: BudgetLimit, holder: str, kept: Amount, *, now: float, lease: float
) -> int:
    """Hold only this much from now on, and give back the rest; return the number of the change."""
    _hold(tx, limit, holder, kept, now + lease)
    return _raise_number(tx, limit.tenant, read_number(tx, limit.tenant), now)


def renew_budget(tx: Transaction, tenants: Sequence[str], holder: str, until: float) -> None:
    """Hold what is held for a further lease."""
    for tenant in tenants:
        tx.keep(
            f"UPDATE {TABLE} SET until = ? WHERE tenant = ? AND kind = ? AND holder = ? {_OWN}",
            (until, tenant, BUDGET, holder),
        )


def drop_allotments(tx: Transaction, holder: str) -> None:
    """Give back all budgets that a process holds."""
    rows = tx.keep(
        f"SELECT tenant FROM {TABLE} WHERE kind = ? AND holder = ? {_OWN}", (BUDGET, holder)
    )
    for (tenant,) in rows.fetchall():
        name = str(tenant)
        number = read_number(tx, name)
        tx.keep(
            f"DELETE FROM {TABLE} WHERE tenant = ? AND kind = ? AND holder = ? {_OWN}",
            (name, BUDGET, holder),
        )
        _raise_number(tx, name, number, 0.0)


def _room(limit: int | None, used: int) -> int:
    return 0 if limit is None else max(0, limit - used)


def _room_usd(limit: float | None, used: float) -> float:
    return 0.0 if limit is None else max(0.0, limit - used)


def _hold(tx: Transaction, limit: BudgetLimit, holder: str, held: Amount, until: float) -> None:
    if held == NONE:
        tx.keep(
            f"DELETE FROM {TABLE} WHERE tenant = ? AND kind = ? AND holder = ? {_OWN}",
            (limit.tenant, BUDGET, holder),
        )
        return
    tx.keep(
        f"INSERT INTO {TABLE} (tenant, kind, holder, since, tokens, usd, until)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, kind, holder) DO UPDATE SET"
        " since = excluded.since, tokens = excluded.tokens, usd = excluded.usd,"
        f" until = excluded.until {_OWN}",
        (limit.tenant, BUDGET, holder, limit.since, held.tokens, held.usd, until),
    )


def _raise_number(tx: Transaction, tenant: str, number: int, now: float) -> int:
    tx.keep(
        f"INSERT INTO {TABLE} (tenant, kind, holder, since, number, until)"
        " VALUES (?, ?, '', 0.0, ?, ?) ON CONFLICT (tenant, kind, holder) DO UPDATE SET"
        f" number = excluded.number {_OWN}",
        (tenant, BUDGET, number + 1, now),
    )
    return number + 1


def _sum_others(tx: Transaction, limit: BudgetLimit, holder: str) -> Amount:
    row = tx.keep(
        f"SELECT sum(tokens), sum(usd) FROM {TABLE}"
        f" WHERE tenant = ? AND kind = ? AND since = ? AND holder NOT IN ('', ?) {_OWN}",
        (limit.tenant, BUDGET, limit.since, holder),
    ).fetchone()
    assert row is not None
    return Amount(int(str(row[0] or 0)), msgspec.convert(row[1] or 0.0, float))


def _reclaim(tx: Transaction, limit: BudgetLimit, now: float, lease: float) -> None:
    """Remove allotments of lost processes whose sessions are taken over, and of older periods.

    Whoever takes a session over puts on the books what was under way in it. Until then the
    allotment stands for it, though not for ever.
    """
    tx.keep(
        f"DELETE FROM {TABLE} WHERE tenant = ? AND kind = ? AND holder <> ''"
        " AND (since < ? OR until < ? OR (until < ? AND NOT EXISTS (SELECT 1"
        f" FROM {WISHES} WHERE worker = {TABLE}.holder AND since IS NOT NULL"
        f" AND due IS NOT NULL))) {_OWN}",
        (limit.tenant, BUDGET, limit.since, now - MOST_LEASES * lease, now),
    )


# --------------------------------------------------------------------------- rates


class RateGrant(msgspec.Struct, frozen=True):
    """So many of a tenant's requests or tokens; or None, and when to ask again."""

    amount: int
    due: float


def reserve_rate(
    tx: Transaction,
    tenant: str,
    kind: str,
    grant: str,
    *,
    limit: int,
    need: int,
    more: int,
    now: float,
    until: float,
) -> RateGrant:
    """Take `need` and up to `more` of what a tenant may use in any sixty seconds, until a time.

    An allotment counts until sixty seconds after it was used or has ended. An amount above the
    limit needs all of it.
    """
    tx.keep(
        f"DELETE FROM {TABLE} WHERE tenant = ? AND kind = ? AND until <= ? {_OWN}",
        (tenant, kind, now - MINUTE),
    )
    rows = tx.keep(
        f"SELECT until, tokens FROM {TABLE} WHERE tenant = ? AND kind = ? ORDER BY until {_OWN}",
        (tenant, kind),
    ).fetchall()
    counted = [msgspec.convert(row, tuple[float, int]) for row in rows]
    used = sum(amount for _, amount in counted)
    need = min(need, limit)
    over = used + need - limit
    if over > 0:
        return RateGrant(0, _find_due(counted, over))
    amount = min(limit - used, need + more)
    tx.keep(
        f"INSERT INTO {TABLE} (tenant, kind, holder, since, tokens, until)"
        f" VALUES (?, ?, ?, ?, ?, ?) {_OWN}",
        (tenant, kind, grant, now, amount, until),
    )
    return RateGrant(amount, now)


def find_rate_due(tx: Transaction, tenant: str, kind: str, limit: int, now: float) -> float | None:
    """Return when one more request or token of a tenant has room; None if it has now."""
    rows = tx.keep(
        f"SELECT until, tokens FROM {TABLE} WHERE tenant = ? AND kind = ? AND until > ?"
        f" ORDER BY until {_OWN}",
        (tenant, kind, now - MINUTE),
    ).fetchall()
    counted = [msgspec.convert(row, tuple[float, int]) for row in rows]
    over = sum(amount for _, amount in counted) + 1 - limit
    return None if over <= 0 else _find_due(counted, over)


def settle_rate(
    tx: Transaction, tenant: str, kind: str, grant: str, used: int, until: float
) -> None:
    """Count a grant with what was used of it, for sixty seconds after it was last used."""
    tx.keep(
        f"UPDATE {TABLE} SET tokens = ?, until = ?"
        f" WHERE tenant = ? AND kind = ? AND holder = ? {_OWN}",
        (used, until, tenant, kind, grant),
    )


def _find_due(counted: Sequence[tuple[float, int]], over: int) -> float:
    for until, amount in counted:
        over -= amount
        if over <= 0:
            return until + MINUTE
    return counted[-1][0] + MINUTE
