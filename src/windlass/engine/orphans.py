"""Sessions of sub-agents that go on without the agent that began them: its rules and budget still hold.

The rules of the parent are on the child's record, as plain data in the metadata of its run. Its limits and
what it has spent are read from its own journal. A rule that is code of the parent's program cannot be
rebuilt: then the session goes on under its parent only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import msgspec

from windlass.errors import ConfigError, Corrupt, NoSuchSession, ParentRequired
from windlass.events import JournalEntry, Remembered, RunStarted, SessionOpened
from windlass.json_types import JsonObject
from windlass.loop.ledger import NO_LIMITS, Budget, Ledger
from windlass.loop.plan import Plan, as_journaled, digest_of
from windlass.loop.policy import Policy
from windlass.loop.resume import limits_of, standing
from windlass.loop.run import Run
from windlass.loop.spend import read_children
from windlass.store.base import Store

UNDER: Final = "under"  # in a run's metadata: the rules of the session that it works for

_BUILDERS: Final = {
    "ceiling": ("windlass.policies.authority.permissions", "rebuild_ceiling"),
    "permissions": ("windlass.policies.authority.permissions", "rebuild_permissions"),
    "approval": ("windlass.policies.authority.approval", "rebuild_approval"),
}


def place_under(plan: Plan, parent: Run) -> Plan:
    """Return the plan of a sub-agent, bound by the rules of its parent and with them on its record."""
    bound = plan.under(parent)
    rules = [rule for policy in bound.inherited if (rule := _to_rule(policy)) is not None]
    if not rules:
        return bound
    # The digest tells whether redaction has changed a rule on its way into the journal.
    record: JsonObject = {"session": parent.session_id, "rules": rules, "digest": digest_of(rules)}
    if bound is plan:
        bound = plan.of(plan.model)
    bound.metadata = {**(bound.metadata or {}), UNDER: record}
    return bound


def _to_rule(policy: Policy[Any]) -> JsonObject | None:
    data = policy.as_record()
    if data == {}:
        return None  # it needs no rebuilding
    try:
        return {"policy": policy.name, "data": as_journaled(data, "a rule")}
    except ConfigError:  # no journal can hold it
        return {"policy": policy.name, "data": None}


# --------------------------------------------------------------------------- rules


def keep_bound(plan: Plan, entries: Sequence[JournalEntry]) -> Plan:
    """Return a plan that is bound by what the parent forbade, and as careful with untrusted content."""
    above: list[Policy[Any]] = []
    if (record := find_rules(entries)) is not None:
        above += rebuild_rules(record)
    if any([_is_from_parent(entry) for entry in entries]):
        # loaded only here: most runs have no use for it
        above.append(import_module("windlass.policies.taint.policy").build_orphan(entries))
    return plan.below(above) if above else plan


def find_rules(entries: Sequence[JournalEntry]) -> JsonObject | None:
    """Find the record of the rules that a sub-agent's parent has put on it."""
    for entry in reversed(entries):
        if type(entry) is RunStarted and UNDER in (entry.metadata or {}):
            return cast("JsonObject", (entry.metadata or {})[UNDER])
    return None


def rebuild_rules(record: JsonObject) -> list[Policy[Any]]:
    """Build the policies of a parent from the record of its rules."""
    session = str(record.get("session"))
    rules = cast("list[JsonObject]", record.get("rules"))
    if digest_of(rules) != record.get("digest"):
        raise ParentRequired("of which parts are not on its record", session)
    policies: list[Policy[Any]] = []
    for rule in rules:
        data = rule["data"]
        if data is None:
            raise ParentRequired(f"of which {rule['policy']!r} is code of its program", session)
        [(kind, value)] = data.items()
        module, name = _BUILDERS[kind]
        build: Callable[[Any, str], Policy[Any]] = getattr(import_module(module), name)
        try:
            policies.append(build(value, rule["policy"]))
        except msgspec.ValidationError as error:
            raise Corrupt(f"a rule of session {session!r} is damaged: {error}") from error
    return policies


def _is_from_parent(entry: JournalEntry) -> bool:
    if type(entry) is not Remembered:
        return False
    below, _, name = entry.policy.rpartition(".")
    return bool(below) and name == "taint"


# --------------------------------------------------------------------------- budgets


class _Parent(NamedTuple):
    """The limits of a session that another one works for, and what its tree has spent."""

    limits: Budget
    tokens: int
    usd: float
    seconds: float


async def build_ledger_below(
    store: Store, entries: Sequence[JournalEntry], limits: Budget, top: Ledger
) -> Ledger | None:
    """Build the ledger of a sub-agent that goes on alone, below those of the sessions it works for."""
    above: list[_Parent] = []
    opened = entries[0]
    while isinstance(opened, SessionOpened) and opened.parent_id is not None:
        record = find_rules(entries)
        child_id = opened.session_id
        parent_id = str(record["session"]) if record is not None else opened.parent_id
        try:
            entries = await store.read(parent_id)
        except NoSuchSession:
            if record is None:
                break
            raise ParentRequired("which is deleted", parent_id) from None
        state = standing(entries)
        opened = entries[0]
        if record is None and not child_id.startswith(f"{parent_id}."):
            continue  # a fork: it works for whom the other one works for
        if state.run is None:
            continue
        await read_children(store, parent_id, state.spending)
        spending, begun = state.spending, state.run
        above.append(
            _Parent(
                limits_of(NO_LIMITS, begun.metadata),
                spending.tree_usage.total_tokens,
                spending.tree_usd,
                state.at_work(1),
            )
        )
    if not any([parent.limits != NO_LIMITS for parent in above]):
        return None
    ledger = top
    for parent in reversed(above):
        ledger = Ledger(msgspec.structs.replace(parent.limits, iterations=None), ledger)
        ledger.restore(0, parent.tokens, parent.usd, parent.seconds)
    return Ledger(limits, ledger)


def lower_seconds(limits: Budget, ledger: Ledger) -> Budget:
    """Return the limits with the time that the ledgers above leave, below that of the environment."""
    seconds, above = limits.seconds, ledger.parent
    while above is not None and above is not above.root:
        if above.limits.seconds is not None:
            left = max(0.0, above.limits.seconds - above.seconds)
            seconds = left if seconds is None else min(seconds, left)
        above = above.parent
    if seconds == limits.seconds:
        return limits
    return msgspec.structs.replace(limits, seconds=seconds)
