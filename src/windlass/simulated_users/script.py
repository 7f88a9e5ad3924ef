"""Scripted users: answers that are written down, for tests that always run alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.globs import like
from windlass.json_types import is_object, is_sequence
from windlass.loop.run import Run
from windlass.options.checks import no_key
from windlass.options.parse import merge_options
from windlass.policies.simulated_user import UserDecision
from windlass.simulated_users.user import Question, SimulatedUser

_FIELDS: Final = ("match", "reply", "action", "reason")
Chosen = TypeVar("Chosen", bound=msgspec.Struct)


class ScriptOptions(msgspec.Struct, frozen=True):
    """The options of a scripted user."""

    max_replies: object = 20
    name: object = "user"


class _Entry(msgspec.Struct, frozen=True):
    match: str | None = None
    reply: str | None = None
    action: str | None = None
    reason: str | None = None

    def fits(self, text: str) -> bool:
        return self.match is not None and like(self.match.casefold(), text.casefold())


def scripted_user(
    entries: Sequence[str | Mapping[str, str]],
    options: Mapping[str, Any] | None = None,
    /,
    **more: Any,
) -> SimulatedUser:
    """Build a simulated user that answers from a script.

    ```python
    user = w.scripted_user(
        ["Vitest.", {"match": "*done*", "action": "stop", "reason": "complete"}], max_replies=2
    )
    ```
    An entry is a text, or a dict with `match` (a glob over the question), `reply`, `action` (`stop`
    or `fail`) and `reason`. Entries with `match` are used whenever they match, the others once, in
    order; a user whose script is over is silent, which ends the run. Options: `max_replies` (20),
    `name`.
    """
    chosen = read_options(options, more, ScriptOptions, "scripted_user")
    return ScriptedUser(entries, chosen.name, chosen.max_replies)


fixture_user = scripted_user


class ScriptedUser(SimulatedUser):
    """A simulated user that answers from a script."""

    def __init__(self, entries: object, name: object, max_replies: object) -> None:
        super().__init__(name, max_replies)
        if isinstance(entries, str) or not is_sequence(entries):
            raise ConfigError(f"the entries of a script are a list, not {safe_repr(entries)}")
        self.entries = tuple([_parse_entry(at, one) for at, one in enumerate(entries)])

    @property
    def opening(self) -> str | None:
        """The first text of the script, where a conversation can begin with it."""
        first = self.entries[0] if self.entries else None
        return None if first is None or first.match is not None else first.reply

    def is_addressed(self, text: str) -> bool:
        return super().is_addressed(text) or any([entry.fits(text) for entry in self.entries])

    async def decide(
        self, run: Run, question: Question, earlier: Sequence[UserDecision]
    ) -> UserDecision:
        for at, entry in enumerate(self.entries):
            if entry.fits(question.text):
                return _to_decision(entry, at)
        used = {decision.entry for decision in earlier}
        for at, entry in enumerate(self.entries):
            if entry.match is None and at not in used:
                return _to_decision(entry, at)
        return UserDecision(kind="stop", reason="script_over")


def _to_decision(entry: _Entry, at: int) -> UserDecision:
    if entry.action == "stop":
        return UserDecision(kind="stop", reason=entry.reason, text=entry.reply or "", entry=at)
    if entry.action == "fail":
        return UserDecision(kind="failed", reason=entry.reason, text=entry.reply or "", entry=at)
    return UserDecision(kind="reply", text=entry.reply or "", reason=entry.reason, entry=at)


def _parse_entry(at: int, entry: object) -> _Entry:
    if isinstance(entry, str):
        entry = {"reply": entry}
    if not is_object(entry):
        raise ConfigError(f"entry {at} of a script is a text or a dict, not {safe_repr(entry)}")
    for name, value in entry.items():
        if name not in _FIELDS:
            raise no_key(f"entry {at} of a script", name, _FIELDS)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"entry {at} of a script: {name} is a text, not {safe_repr(value)}")
    read = _Entry(**entry)
    if read.action not in (None, "stop", "fail"):
        raise ConfigError(f"entry {at} of a script: action is stop or fail, not {read.action!r}")
    if read.action is None and not (read.reply or "").strip():
        raise ConfigError(f"entry {at} of a script needs a reply, or an action (stop, fail)")
    return read


def read_options(options: object, more: Mapping[str, Any], kind: type[Chosen], door: str) -> Chosen:
    """Build the options of a simulated user from what was given; refuse unknown ones."""
    given = merge_options(options, more, door)
    for name in given:
        if name not in kind.__struct_fields__:
            raise no_key(door, name, kind.__struct_fields__)
    return kind(**given)
