"""Sessions of sub-agents that go on without the agent that began them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from windlass.events import JournalEntry, Remembered
from windlass.loop.plan import Plan


def keep_bound(plan: Plan, entries: Sequence[JournalEntry]) -> Plan:
    """Return a plan that is as careful with untrusted content as the parent was.

    The parent's policies are not there, so what they left in the journal is what is known of it.
    """
    if not any([_is_from_parent(entry) for entry in entries]):
        return plan
    # loaded only here: most runs have no use for it
    build = import_module("windlass.policies.taint.policy").build_orphan
    return plan.below((build(entries),))


def _is_from_parent(entry: JournalEntry) -> bool:
    if type(entry) is not Remembered:
        return False
    below, _, name = entry.policy.rpartition(".")
    return bool(below) and name == "taint"
