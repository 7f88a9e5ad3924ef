"""The workspace of a session: recorded with it, so that a run that goes on elsewhere uses the same.

It is on record twice: with the session, if it was opened with one, and with each run that has built-in tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from windlass.errors import WorkspaceChanged, safe_repr
from windlass.events import JournalEntry, RunStarted, SessionOpened
from windlass.json_types import JsonObject, is_mapping
from windlass.loop.plan import Plan
from windlass.options.group import Values
from windlass.toolbox.options import MOUNT_MODES, MountMode, WorkspaceOptions

#: Keys of the metadata of a session, and of its runs.
ANCHOR: Final = "workspace_anchor"
MOUNTS: Final = "workspace_mounts"

#: Builds the plan of an agent from its options.
Assemble: TypeAlias = Callable[[Values], Plan]


class RecordedWorkspace(NamedTuple):
    """The folder that a session works in, and the mounts, as absolute paths."""

    anchor: str
    mounts: Mapping[str, MountMode]


def describe_workspace(options: WorkspaceOptions) -> JsonObject:
    """Return the workspace as metadata keep it."""
    mounts = options.resolve_mounts()
    return {ANCHOR: options.anchor, **({MOUNTS: mounts} if mounts else {})}


def find_workspace(entries: Sequence[JournalEntry]) -> RecordedWorkspace | None:
    """Find the workspace of a session: that of its last run that had one, or its own."""
    for entry in reversed(entries):
        if isinstance(entry, (RunStarted, SessionOpened)):
            found = read_workspace(entry.metadata)
            if found is not None:
                return found
    return None


def read_workspace(metadata: JsonObject | None) -> RecordedWorkspace | None:
    """Read the workspace from metadata; None if they have none."""
    anchor: object = (metadata or {}).get(ANCHOR)
    if not isinstance(anchor, str):
        return None
    given: object = (metadata or {}).get(MOUNTS)
    mounts: dict[str, MountMode] = {}
    if is_mapping(given):
        for folder, mode in given.items():
            for known in MOUNT_MODES:
                if mode == known:
                    mounts[str(folder)] = known
    return RecordedWorkspace(anchor, mounts)


def bind_plan(plan: Plan, values: Values, assemble: Assemble, *, records: bool) -> None:
    """Have the plan keep to the workspace of the session that it runs on.

    `records`: its runs record their workspace, since they have tools that use it.
    """
    options, built = WorkspaceOptions.read(values), plan.policies
    plan.workspace = options
    if records:
        plan.metadata = {**(plan.metadata or {}), **describe_workspace(options)}

    def relocate(now: Plan, entries: Sequence[JournalEntry]) -> Plan:
        recorded = find_workspace(entries)
        if recorded is None:
            return now
        _check_folder(recorded)
        if "workspace" in values and options.workspace is not None:
            _check_same(options.anchor, recorded)
        wanted = _choose_mounts(options, values, recorded)
        if options.anchor == recorded.anchor and wanted == options.resolve_mounts():
            return now
        moved = assemble({**values, "workspace": recorded.anchor, "mounts": wanted})
        moved.metadata = {**(now.metadata or {}), **(moved.metadata or {})}
        moved.withheld = now.withheld
        for policy in now.policies:  # those that were added to the plan after it was assembled
            if policy not in built and policy not in now.inherited:
                moved = moved.beside(policy)
        return moved if not now.inherited else moved.below(now.inherited)

    plan.relocate = relocate


def _choose_mounts(
    options: WorkspaceOptions, values: Values, recorded: RecordedWorkspace
) -> dict[str, MountMode]:
    """Return the mounts that the agent names, or else those of the session."""
    if "mounts" not in values:
        return dict(recorded.mounts)
    placed = WorkspaceOptions(workspace=recorded.anchor, mounts=options.mounts)
    return placed.resolve_mounts()


def _check_folder(recorded: RecordedWorkspace) -> None:
    for folder in (recorded.anchor, *recorded.mounts):
        if not os.path.isdir(folder):
            raise WorkspaceChanged(
                f"the session works in {safe_repr(recorded.anchor, 500)}, and there is no folder "
                f"{safe_repr(folder, 500)} here; go on where it is, or begin another session"
            )


def _check_same(anchor: str, recorded: RecordedWorkspace) -> None:
    if anchor != os.path.realpath(recorded.anchor):
        raise WorkspaceChanged(
            f"the session works in {safe_repr(recorded.anchor, 500)}, not in the workspace "
            f"{safe_repr(anchor, 500)}; leave workspace out, or begin another session"
        )
