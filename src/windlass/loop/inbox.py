"""Items that others posted to a session during a run, taken between turns."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from windlass.errors import ConfigError
from windlass.events import InboxTaken
from windlass.events.policy import Reminder
from windlass.loop.run import Run
from windlass.loop.verdict import Stop, Suspend
from windlass.messages import Message, Text
from windlass.store.base import InboxItem


def last_word(run: Run) -> InboxItem | None:
    """Return the message that a run must hear before it stops, late ones first."""
    mail = run.journal.mail
    late = next((item for item in mail if item.kind == "steer"), None)
    return late or next((item for item in mail if item.kind == "follow_up"), None)


def take_mail(run: Run) -> Stop | Suspend | None:
    """Take what was posted to the session; follow-ups stay until the run would have stopped."""
    for item in list(run.journal.mail):
        match item.kind:
            case "follow_up" | "event" | "memory":
                continue  # events are for a daemon that is idle, memory is for the policy that it names
            case "steer" | "resume":
                hear_item(run, item)
            case "remind":
                _be_reminded(run, item)
            case "cancel":
                take_item(run, item)
                return Stop("cancelled", str(item.payload or "cancelled"))
            case "suspend":
                take_item(run, item)
                payload = item.fields
                return Suspend(
                    str(payload.get("reason") or "suspended"),
                    payload.get("conditions"),
                    str(payload.get("initiator") or "operator"),
                )
            case "decision" | "result":
                take_item(run, item)  # for a call that is no longer open
    return None


def take_item(run: Run, item: InboxItem) -> None:
    """Take an item out of the inbox, on the record."""
    run.journal.take(item)
    run.record(InboxTaken(item.id, item.kind, item.payload))


def _be_reminded(run: Run, item: InboxItem) -> None:
    take_item(run, item)
    try:
        reminder = Reminder(**item.fields)
    except (ConfigError, TypeError):  # a manual post may hold anything: it is recorded
        return
    run.remind(reminder, "host")


def hear_item(run: Run, item: InboxItem) -> None:
    """Take an item, and let the model hear its words."""
    take_item(run, item)
    words = item.fields.get("message") if item.kind == "resume" and item.fields else item.payload
    if words:
        run.hear(Message("user", (Text(str(words)),), item.kind))


async def wait_for_mail(run: Run, seconds: float | None) -> bool:
    """Wait until something is posted to the session, or so long; return whether it was."""
    journal, arrived = run.journal, asyncio.Event()
    before = journal.on_mail

    def on_mail() -> None:
        if before is not None:
            before()
        arrived.set()

    journal.on_mail = on_mail
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await arrived.wait()
    finally:
        if journal.on_mail is on_mail:
            journal.on_mail = before
    return arrived.is_set()
