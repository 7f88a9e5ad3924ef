"""Limits of a fleet over all its workers: runs at once, and budgets and rates of tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import is_mapping
from windlass.loop.ledger import Budget
from windlass.store.wishes import TABLE, Transaction, Wish

T = TypeVar("T")
_OWN: Final = "/* windlass */"
_BUDGET_KEYS: Final = ("usd", "tokens", "per")


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may use in any sixty seconds; None is no limit of that kind."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class FleetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits by name; `"*"` is every other one.

    Most runs at once, by queue, tenant and model; budgets and rates of tenants.
    """

    queues: Mapping[str, int] = {}
    tenants: Mapping[str, int] = {}
    models: Mapping[str, int] = {}
    budgets: Mapping[str, Budget] = {}
    rates: Mapping[str, RateLimit] = {}

    @property
    def shares(self) -> bool:
        """Whether tenants have budgets or rates that all workers share."""
        return bool(self.budgets or self.rates)


NO_LIMITS = FleetLimits()


def find_limit(some: Mapping[str, T], name: str) -> T | None:
    """Return the limit of a name, or that of every other one."""
    return some.get(name, some.get("*"))


def check_limits(given: object) -> FleetLimits:
    """Return limits from a dict such as `{"tenants": {"*": 5}}`; raise `ConfigError` otherwise."""
    if isinstance(given, FleetLimits):
        return given
    if given is None:
        return NO_LIMITS
    names = FleetLimits.__struct_fields__
    if not is_mapping(given):
        raise ConfigError(
            f"limits of a fleet are a dict with {', '.join(names)}, not {safe_repr(given)}"
        )
    checked: dict[str, Any] = {}
    for kind, some in given.items():
        if kind not in names:
            hint = nearest(str(kind), names) or f"; there are {', '.join(names)}"
            raise ConfigError(f"a fleet has no limits {safe_repr(kind)}{hint}")
        if not is_mapping(some) or not all(isinstance(name, str) for name in some):
            raise ConfigError(
                f"limits of {kind} are a dict of names and their limits, not {safe_repr(some)}"
            )
        check = {"budgets": _check_budget, "rates": _check_rate}.get(kind, _check_count)
        checked[kind] = {name: check(f"{kind}[{name!r}]", one) for name, one in some.items()}
    return FleetLimits(**checked)


def _check_count(where: str, most: object) -> int:
    if type(most) is not int or most < 1:
        raise ConfigError(
            f"limit {where} of a fleet is a number of runs from 1, not {safe_repr(most)}"
        )
    return most


def _check_budget(where: str, given: object) -> Budget:
    """Return a budget with a period; without one it is for ever."""
    if not isinstance(given, Budget):
        given = Budget(**_check_keys(where, given, _BUDGET_KEYS))
    if given.usd is None and given.tokens is None:
        raise ConfigError(f"limit {where} needs usd or tokens")
    if given.iterations is not None or given.seconds is not None:
        raise ConfigError(f"limit {where} is in usd or tokens; turns and seconds are of a run")
    return given if given.per is not None else msgspec.structs.replace(given, per="ever")


def _check_rate(where: str, given: object) -> RateLimit:
    if isinstance(given, RateLimit):
        given = msgspec.structs.asdict(given)
    values = _check_keys(where, given, RateLimit.__struct_fields__)
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(
                f"{name} of limit {where} is a whole number from 1, not {safe_repr(value)}"
            )
    if all(value is None for value in values.values()):
        raise ConfigError(f"limit {where} needs requests_per_minute or tokens_per_minute")
    return RateLimit(**values)


def _check_keys(where: str, given: object, keys: tuple[str, ...]) -> dict[str, Any]:
    if not is_mapping(given):
        raise ConfigError(f"limit {where} is a dict with {', '.join(keys)}, not {safe_repr(given)}")
    for name in given:
        if name not in keys:
            hint = nearest(str(name), keys) or f"; there are {', '.join(keys)}"
            raise ConfigError(f"limit {where} has no {safe_repr(name)}{hint}")
    return {str(name): value for name, value in given.items()}


def has_room(tx: Transaction, wish: Wish, limits: FleetLimits, worker: str) -> bool:
    """Check whether a session may be driven now, beside those that are driven.

    It is asked in the transaction that puts the drive on record: of two workers one gets the last place.
    """
    for column, name, some in (
        ("queue", wish.queue, limits.queues),
        ("tenant", wish.tenant, limits.tenants),
        ("model", wish.model, limits.models),
    ):
        most = find_limit(some, name or "") if some else None
        if most is None or (column == "model" and name is None):
            continue
        row = tx.keep(
            f"SELECT count(*) FROM {TABLE} WHERE {column} = ? AND since IS NOT NULL"
            f" AND due IS NOT NULL AND session <> ? {_OWN}",
            (name, wish.session),
        ).fetchone()
        found = 0 if row is None else row[0]
        if isinstance(found, int) and found >= most:
            return False
    return True
