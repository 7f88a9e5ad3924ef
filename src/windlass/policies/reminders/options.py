"""The options of reminders, and the policy that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from windlass.events.policy import Propagate, Reminder
from windlass.loop.policy import Policy
from windlass.policies.build import About


class ReminderOptions(TypedDict, total=False):
    """What the model is reminded of."""

    on_session_start: Callable[..., Any] | str | Reminder | dict[str, Any] | Sequence[Any] | None


def system_reminder(
    text: str, *, propagate: Propagate = "session", ttl: int | None = None
) -> Reminder:
    """Words for the end of the next requests, never part of the conversation.

    ```python
    w.Agent(model, tools=tools, on_session_start=w.system_reminder("Run the tests before you say done."))
    ```
    `ttl` is how many turns it lives (None: for the whole session). `propagate`: agents that this one
    hands a task to inherit it (`session`), and those that they hand one to as well (`all`), or nobody
    does (`none`).
    """
    return Reminder(text, ttl, propagate)


def _on_session_start(name: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    from windlass.policies.reminders.policy import reminders_in

    found = reminders_in(name, value)
    return found if isinstance(value, (list, tuple)) else found[0]


CHECKS: dict[str, Callable[[str, Any], Any]] = {"on_session_start": _on_session_start}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    given = about.options.get("on_session_start")
    if given is None or given == ():
        return []
    from windlass.policies.reminders.policy import OnSessionStart

    return [OnSessionStart(given)]
