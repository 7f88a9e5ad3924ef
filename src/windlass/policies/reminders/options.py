"""The option `on_session_start`: what the model is reminded of from the beginning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events.policy import Propagate, Reminder
from windlass.options.group import Option, OptionGroup

_KEYS = Reminder.__struct_fields__


def system_reminder(
    text: str, *, propagate: Propagate = "session", ttl: int | None = None
) -> Reminder:
    """Build a reminder: a text at the end of the next requests, not part of the conversation.

    ```python
    w.Agent(model, tools=tools, on_session_start=w.system_reminder("Run the tests before you say done."))
    ```
    `ttl` is the number of turns it lives (None: the whole session). `propagate` says which
    sub-agents inherit it: those that this agent calls (`session`), also those that they call
    (`all`), or none (`none`).
    """
    return Reminder(text, ttl, propagate)


def reminders_in(name: str, given: object) -> tuple[Reminder, ...]:
    """Parse reminders: one or several, as such, as a text, or as a dict."""
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


def _check_session_start(name: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    found = reminders_in(name, value)
    return found if isinstance(value, (list, tuple)) else found[0]


class ReminderOptions(OptionGroup, frozen=True, kw_only=True):
    """Reminders at the end of requests."""

    on_session_start: Annotated[
        Callable[..., Any] | Reminder | tuple[Reminder, ...] | None,
        Option(
            _check_session_start,
            accepts="Callable[..., Any] | str | Reminder | dict[str, Any] | Sequence[Any] | None",
        ),
    ] = None
    """Reminders of a session, or a function that returns them when it begins."""
