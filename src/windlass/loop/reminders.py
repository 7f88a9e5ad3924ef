"""Reminders that are due: how one is worded, how it joins the others, how they expire.

A run and the reading of its journal do the same with them, so that both end in the same tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.events import Reminded
from windlass.events.policy import Reminder
from windlass.messages import Message, Text

KIND = "system_reminder"


def reminder_entry(reminder: Reminder, source: str, session_id: str) -> Reminded:
    """Build the entry of a reminder; its words cannot pretend that it is over."""
    if type(cast("object", reminder)) is not Reminder:
        raise ConfigError(f"a reminder is made by system_reminder(…), not {safe_repr(reminder)}")
    text = reminder.text.replace("</system_reminder", "<\\/system_reminder")
    message = Message("user", (Text(f"<system_reminder>\n{text}\n</system_reminder>"),), KIND)
    return Reminded(message, reminder.ttl, reminder.propagate, source, session_id)


def add_reminder(reminders: tuple[Reminded, ...], entry: Reminded) -> tuple[Reminded, ...]:
    """Add a reminder; the same words are not there twice, their turns begin anew."""
    if entry.message.kind == KIND:
        for place, one in enumerate(reminders):
            if one.message == entry.message:
                return (*reminders[:place], entry, *reminders[place + 1 :])
    return (*reminders, entry)


def age_reminders(reminders: tuple[Reminded, ...], due: int) -> tuple[Reminded, ...]:
    """Return the reminders after a reply: the first `due` live one request less."""
    left: list[Reminded] = []
    for one in reminders[:due]:
        if one.ttl is None:
            left.append(one)
        elif one.ttl > 1:
            left.append(msgspec.structs.replace(one, ttl=one.ttl - 1))
    return (*left, *reminders[due:])


def inherit_reminders(reminders: Sequence[Reminded]) -> list[Reminded]:
    """Return what an agent that is handed a task is reminded of."""
    return [
        msgspec.structs.replace(
            one, source="inherited", propagate="all" if one.propagate == "all" else "none"
        )
        for one in reminders
        if one.propagate != "none"
    ]
