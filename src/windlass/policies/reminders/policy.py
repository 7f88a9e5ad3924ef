"""Reminders from the beginning of a session: computed once, and recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.access.caller import Caller
from windlass.events import Replied
from windlass.events.policy import Reminder
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message
from windlass.policies.build import BuildContext, Policies
from windlass.policies.reminders.options import ReminderOptions, reminders_in


def build(ctx: BuildContext) -> Policies:
    """Build the policy of reminders."""
    given = ReminderOptions.read(ctx.values).on_session_start
    return () if given is None or given == () else (OnSessionStart(given),)


class SessionStart(NamedTuple):
    """The argument of `on_session_start`: `start.session_id`, `start.deps`, …"""

    session_id: str
    run_id: str
    agent: str | None  # its name
    model: str
    caller: Caller
    deps: Any
    messages: Sequence[Message]  # what the session begins with


class ReminderMemory(msgspec.Struct, frozen=True):
    """The memory of whether the session has begun."""

    asked: bool = False


class OnSessionStart(Policy[ReminderMemory]):
    """A policy that adds given reminders, or those of a function, at the beginning."""

    memory = ReminderMemory
    keeps = "session"

    def __init__(
        self, given: Callable[[SessionStart], Any] | Reminder | tuple[Reminder, ...]
    ) -> None:
        self.given = given

    @property
    def name(self) -> str:
        return "on_session_start"

    async def start(self, run: Run) -> None:
        """Add the reminders before the first turn of the session."""
        if self.name in run.memory or _under_way(run):
            return
        answer: Any = self.given
        if callable(answer):
            answer = answer(
                SessionStart(
                    run.session_id,
                    run.run_id,
                    run.plan.name,
                    run.model.name,
                    run.caller,
                    run.deps,
                    run.messages,
                )
            )
            if inspect.isawaitable(answer):
                answer = await answer
        for reminder in reminders_in("on_session_start", answer):
            run.remind(reminder, "session_start")
        run.remember(self, ReminderMemory(True))


def _under_way(run: Run) -> bool:
    """Check whether the model has replied in this session before."""
    return any(type(e) is Replied and e.purpose is None for e in run.entries)
