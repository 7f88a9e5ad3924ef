"""What a person types into a chat: text for the model, commands, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, as_given, is_object
from windlass.records import Record

_FIELDS: Final = {"send": "message", "handled": "message", "exit": "reason"}


class ChatCommand(Record, frozen=True):
    """The argument of a slash command's function: `request.state`, `request.arguments`."""

    name: str
    """The command as it was typed: `/runs`."""
    arguments: str
    """The rest of the line."""
    state: JsonObject
    """The state of the chat."""


Command: TypeAlias = Callable[[ChatCommand], Any]


def agent_chat_route_input(value: str, state: JsonObject, routes: dict[str, Command]) -> Any:
    """Route what was typed: a slash command to its function, everything else to the model.

    ```python
    async def on_user_input(state):
        line = await w.read_line()
        return w.agent_chat_route_input(line.value, state, {"/runs": list_runs})
    ```
    Returns an answer of `on_user_input`. A function takes a `ChatCommand` and answers as
    `on_user_input` does. An unknown command is handled with the list of known ones, a line without
    text is handled without a message, and `//text` sends `/text`.
    """
    if not isinstance(as_given(value), str):
        raise ConfigError(f"agent_chat_route_input takes a text, not {safe_repr(value)}")
    _check_routes(routes)
    text = value.strip()
    if not text:
        return {"kind": "handled"}
    if not text.startswith("/"):
        return {"kind": "send", "message": value}
    if text.startswith("//"):
        return {"kind": "send", "message": text[1:]}
    parts = text.split(maxsplit=1)
    name = parts[0]
    command = routes.get(name)
    if command is None:
        known = ", ".join(sorted(routes)) or "none"
        said = f"no command {name!r}{nearest(name, routes)} (commands: {known})"
        return {"kind": "handled", "message": said}
    return command(ChatCommand(name, parts[1] if len(parts) > 1 else "", state))


def _check_routes(routes: object) -> None:
    if not is_object(routes):
        raise ConfigError(f'routes are a dict like {{"/runs": fn}}, not {safe_repr(routes)}')
    for name, command in routes.items():
        is_text = isinstance(as_given(name), str)
        if not is_text or name[:1] != "/" or name[:2] == "//" or name.split() != [name]:
            raise ConfigError(f"a route is a word that begins with one slash, not {name!r}")
        if not callable(command):
            raise ConfigError(f"route {name!r} is a function, not {safe_repr(command)}")


class Send(msgspec.Struct, frozen=True):
    """An input for the model."""

    message: Any


class Handled(msgspec.Struct, frozen=True):
    """An input that the program has dealt with."""

    message: str | None


class Exit(msgspec.Struct, frozen=True):
    """The end of the chat."""

    reason: str


def parse_input(answer: object) -> Send | Handled | Exit:
    """Read an answer of `on_user_input`, or raise `ConfigError`."""
    if isinstance(answer, str):
        return Send(answer) if answer.strip() else Handled(None)
    if not is_object(answer):
        raise ConfigError(
            "on_user_input answers a text or a dict with a kind (send, handled, exit), "
            f"not {safe_repr(answer)}"
        )
    kind: object = answer.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        hint = nearest(kind, _FIELDS) if isinstance(kind, str) else ""
        raise ConfigError(
            f"on_user_input: kind is send, handled or exit, not {safe_repr(kind)}{hint}"
        )
    field = _FIELDS[kind]
    for name in answer:
        if name not in ("kind", field):
            raise ConfigError(f"on_user_input: {kind!r} has a {field}, and no {safe_repr(name)}")
    value: object = answer.get(field)
    if kind == "send":
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ConfigError("on_user_input: send needs a message that is not blank")
        return Send(value)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"on_user_input: {field} is a text, not {safe_repr(value)}")
    return Handled(value) if kind == "handled" else Exit(value or "exit")
