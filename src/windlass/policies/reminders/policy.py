"""What the model is reminded of from the beginning of a session: asked for once, kept on record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from windlass.access.caller import Caller
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import Replied
from windlass.events.policy import Reminder
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message

_KEYS = Reminder.__struct_fields__


class SessionStart(NamedTuple):
    """What `on_session_start` is given: `start.session_id`, `start.deps`, `start.messages`."""

    session_id: str
    run_id: str
    agent: str | None  # its name
    model: str
    caller: Caller
    deps: Any
    messages: Sequence[Message]  # what the session begins with


class ReminderMemory(msgspec.Struct, frozen=True):
    """Has the session begun?"""

    asked: bool = False


class OnSessionStart(Policy[ReminderMemory]):
    """Remind the model of what a function says at the beginning, or of what was given."""

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
        """Before the first turn of the session, and never again."""
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
    """Has the model said anything on this session? Then it is past its beginning."""
    return any(type(e) is Replied and e.purpose is None for e in run.entries)


def reminders_in(name: str, given: object) -> tuple[Reminder, ...]:
    """Reminders as people write them: one or several, as such, as a text, or as a dict."""
    if given is None:
        return ()
    if isinstance(given, (list, tuple)):
        return tuple([_one(name, one) for one in cast("Sequence[object]", given)])
    return (_one(name, given),)


def _one(name: str, given: object) -> Reminder:
    if type(given) is Reminder:
        return given
    if isinstance(given, str):
        return Reminder(given)
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{name} says reminders: system_reminder(…), a text or a dict, not {safe_repr(given)}"
        )
    fields = cast("Mapping[Any, Any]", given)
    for key in fields:
        if key not in _KEYS:
            hint = nearest(key, _KEYS) if isinstance(key, str) else ""
            raise ConfigError(f"{name}: a reminder has no {safe_repr(key)}{hint}")
    if "text" not in fields:
        raise ConfigError(f"{name}: a reminder needs its text")
    return Reminder(**fields)
