"""Limits of a fleet: how many sessions of a queue, a tenant or a model run at once, over all workers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import is_mapping
from windlass.store.wishes import TABLE, Transaction, Wish

_OWN = "/* windlass */"


class FleetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Most runs at once, by queue, tenant and model; `"*"` is every other one."""

    queues: Mapping[str, int] = {}
    tenants: Mapping[str, int] = {}
    models: Mapping[str, int] = {}


NO_LIMITS = FleetLimits()


def check_limits(given: object) -> FleetLimits:
    """Return limits from a dict such as `{"tenants": {"*": 5}}`; raise `ConfigError` otherwise."""
    if isinstance(given, FleetLimits):
        return given
    if given is None:
        return NO_LIMITS
    names = FleetLimits.__struct_fields__
    if not is_mapping(given) or any(name not in names for name in given):
        raise ConfigError(
            f"limits of a fleet are a dict with {', '.join(names)}, not {safe_repr(given)}"
        )
    for some in given.values():
        if not is_mapping(some) or not all(_is_limit(name, most) for name, most in some.items()):
            raise ConfigError(
                f"a limit of a fleet is a name and a number from 1, not {safe_repr(some)}"
            )
    return msgspec.convert(given, FleetLimits)


def _is_limit(name: object, most: object) -> bool:
    return isinstance(name, str) and type(most) is int and most >= 1


def has_room(tx: Transaction, wish: Wish, limits: FleetLimits, worker: str) -> bool:
    """Check whether a session may be driven now, beside those that are driven.

    It is asked in the transaction that puts the drive on record: of two workers one gets the last place.
    """
    for column, name, some in (
        ("queue", wish.queue, limits.queues),
        ("tenant", wish.tenant, limits.tenants),
        ("model", wish.model, limits.models),
    ):
        most = some.get(name or "", some.get("*")) if some else None
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
