"""Edits of a session's scratchpad from outside, posted to its inbox.

The same function applies an edit everywhere, so that a reader who knows the inbox sees what the
writer will see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.events import AgentScratchpad, InboxTaken, JournalEntry, Remembered
from windlass.policies.scratchpad.pad import NAME, BadPad, Scratch, pad_entry, read_pad
from windlass.store.base import InboxItem


def standing(entries: Sequence[JournalEntry], mail: Iterable[InboxItem] = ()) -> Scratch:
    """Return the pad after these entries and the edits still in the inbox."""
    state = Scratch()
    for entry in reversed(entries):
        if type(entry) is Remembered and entry.policy == NAME and entry.keeps == "session":
            state = scratch_of(entry.value)
            break
    for item in edits_in(mail):
        state, _ = apply_edit(state, item.fields)
    return state


def scratch_of(value: Any) -> Scratch:
    """Convert a remembered value to a pad; a foreign value gives an empty one."""
    try:
        return msgspec.convert(value, Scratch)
    except msgspec.ValidationError:
        return Scratch()


def edits_in(mail: Iterable[InboxItem]) -> list[InboxItem]:
    """Return the items that are for the scratchpad."""
    return [item for item in mail if item.kind == "memory" and item.fields.get("policy") == NAME]


def edit(action: str, pad: Any = None, expected_version: int | None = None) -> dict[str, Any]:
    """Build an edit as it is posted."""
    fields = {"policy": NAME, "action": action, "pad": pad, "expected_version": expected_version}
    return {name: value for name, value in fields.items() if value is not None}


def apply_edit(state: Scratch, fields: Mapping[str, Any]) -> tuple[Scratch, AgentScratchpad]:
    """Apply an edit to the pad; a refused one leaves it as it is, with the reason."""
    expected = fields.get("expected_version")
    if expected is not None and expected != state.version:
        why = f"it is at version {state.version}, and the edit is of version {expected}"
        return state, pad_entry("refused", state, why)
    if fields.get("action") == "clear":
        state = Scratch(None, state.version + 1)
        return state, pad_entry("clear", state)
    try:
        pad = read_pad(fields.get("pad"))
    except BadPad as error:  # posted by other code
        return state, pad_entry("refused", state, str(error))
    state = Scratch(pad, state.version + 1)
    return state, pad_entry("set", state)


def edit_entries(item: InboxItem, state: Scratch) -> tuple[Scratch, list[JournalEntry]]:
    """Return the pad after the edit, and the entries that record it."""
    after, entry = apply_edit(state, item.fields)
    taken = InboxTaken(item.id, item.kind, item.payload)
    if entry.action == "refused":
        return state, [taken, entry]
    return after, [taken, Remembered(NAME, msgspec.to_builtins(after), "session"), entry]
