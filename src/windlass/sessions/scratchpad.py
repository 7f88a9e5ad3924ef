"""The scratchpad of a session from outside: read, set or clear it, also during a run.

A journal has one writer, so an edit is posted to the session's inbox. A run takes it before its
next request; if no run is at work, it is applied here at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass import seams
from windlass.access.caller import Caller
from windlass.engine.ownership import SessionScope
from windlass.errors import ConfigError, Conflict, Locked, safe_repr
from windlass.events import (
    AgentScratchpad,
    InboxTaken,
    JournalEntry,
    RunEnded,
    RunResumed,
    RunStarted,
)
from windlass.json_types import JsonObject, as_given
from windlass.options.checks import no_key, number, optional
from windlass.policies.scratchpad.inbox import (
    edit,
    edit_entries,
    edits_in,
    standing,
)
from windlass.policies.scratchpad.pad import Scratch, as_data, read_pad
from windlass.store.base import Store
from windlass.store.open import Address

_OPTIONS: Final = {"expected_version": optional(number(0, whole=True))}
_TRIES: Final = 40  # waits for a session whose journal is held for a moment


async def agent_session_scratchpad(
    id: str, *, store: Address | None = None, caller: Caller | None = None
) -> JsonObject | None:
    """Return the session's scratchpad, including pending edits; None if it has none.

    ```python
    pad = await agent_session_scratchpad("review")
    print(pad["goals"][0]["text"])
    ```
    """
    scope = SessionScope.current(store, caller)
    state = await _standing(scope.home, await scope.find(id, "read"))
    return as_data(state.pad)


async def agent_session_set_scratchpad(
    id: str,
    pad: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> int:
    """Replace the scratchpad of a session; return its new version.

    ```python
    session = await agent_session_read("review")
    pad = {**session.scratchpad, "open_items": ["the cellar"]}
    await agent_session_set_scratchpad("review", pad, {"expected_version": session.scratchpad_version})
    ```
    Facts must cite one of the `refs`, or `user:initial`. With `expected_version` it raises
    `Conflict` if the scratchpad has changed; while a run is at work, the edit may be recorded as
    `refused` later.
    """
    scope = SessionScope.current(store, caller)
    checked = scope.environment.redact(read_pad(pad, "pad"))
    key = await scope.find(id, "edit")
    return await _edit(key, "set", as_data(checked), options, scope.home)


async def agent_session_clear_scratchpad(
    id: str,
    options: Mapping[str, Any] | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> int:
    """Clear the scratchpad of a session; return the new version.

    ```python
    await agent_session_clear_scratchpad("review")
    ```
    The next run starts a new one.
    """
    scope = SessionScope.current(store, caller)
    return await _edit(await scope.find(id, "edit"), "clear", None, options, scope.home)


# --------------------------------------------------------------------------- how


async def _standing(home: Store, id: str) -> Scratch:
    return standing(await home.read(id), await home.inbox(id))


async def _edit(
    id: str, action: str, pad: Any, options: Mapping[str, Any] | None, home: Store
) -> int:
    expected = _expected_version(options)
    version = (await _standing(home, id)).version
    if expected is not None and version > expected:
        raise _conflict(id, version, expected)
    # a version that is not there yet may be that of a run whose last words are not on disk: the one
    # who takes the edit knows
    posted = await home.post(id, "memory", edit(action, pad, expected))
    for _ in range(_TRIES):
        entries = await home.read(id)
        if (outcome := _fate(entries, posted)) is not None:
            if outcome.action == "refused":
                raise _conflict(id, outcome.version, expected)
            return outcome.version
        if _at_work(entries):
            break
        if not await _taken_here(home, id):
            await seams.sleep(0.005)
    return (await _standing(home, id)).version


def _conflict(id: str, version: int, expected: int | None) -> Conflict:
    return Conflict(
        f"the scratchpad of session {id!r} is at version {version}, not {expected}: "
        "read it again and make the edit anew"
    )


def _expected_version(options: Mapping[str, Any] | None) -> int | None:
    if options is None:
        return None
    if not isinstance(as_given(options), Mapping):
        raise ConfigError(
            f"the options of a scratchpad's edit are a dict, not {safe_repr(options)}"
        )
    for name in options:
        if name not in _OPTIONS:
            raise no_key("options", name, _OPTIONS)
    return _OPTIONS["expected_version"]("expected_version", options.get("expected_version"))


def _fate(entries: Sequence[JournalEntry], posted: str) -> AgentScratchpad | None:
    """Return the outcome of the edit, if it has been taken."""
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if type(entry) is InboxTaken and entry.item_id == posted:
            after = entries[at + 1 : at + 3]
            return next((one for one in after if type(one) is AgentScratchpad), None)
    return None


def _at_work(entries: Sequence[JournalEntry]) -> bool:
    """Check whether a run is active or was killed; it takes its mail itself."""
    for entry in reversed(entries):
        if isinstance(entry, (RunStarted, RunResumed)):
            return True
        if type(entry) is RunEnded:
            return False
    return False


async def _taken_here(home: Store, id: str) -> bool:
    """Take the edits of an idle session; False if another writer holds its journal."""
    try:
        journal = await home.open(id, create=False)
    except Locked:
        return False
    try:
        if not _at_work(journal.entries):
            for item in edits_in(list(journal.mail)):
                _, entries = edit_entries(item, standing(journal.entries))
                journal.take(item)
                for entry in entries:
                    journal.append(entry)
    finally:
        await journal.close()
    return True
