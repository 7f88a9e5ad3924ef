"""JSON Schema and thinking settings as Claude's models take them, on every wire.

Constraints that the wire cannot express (a minimum, a length) go into the description, and the
caller checks the answer against the whole schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_list, is_object
from windlass.messages import Block, Message, Text
from windlass.models.base import Settings, View
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.json_values import dumps

_KEPT: Final = ("title", "enum", "const", "type", "required", "$ref", "default")
_FORMATS: Final = frozenset(
    "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()
)
_SILENT: Final = frozenset({"$schema", "$id", "$comment", "examples", "additionalProperties"})


def close_objects(schema: JsonObject, path: str = "the schema") -> JsonObject:
    """Close every object of a schema: `close_objects({"type": "object", …})`.

    Raises `ConfigError` for an object whose keys the schema does not name: closed, it could only be
    empty.
    """
    if (problem := open_object(schema, path)) is not None:
        raise ConfigError(
            f"{problem} has keys that the schema does not name, which Claude's structured output"
            " cannot say: name its properties, or make it a list of pairs"
        )
    return _close_schema(schema)


def open_object(schema: JsonObject, path: str = "the schema") -> str | None:
    """Return the path of an object that cannot be closed, or None."""
    if _is_object(schema) and not schema.get("properties"):
        free = schema.get("additionalProperties", True)
        if free is not False and not any(
            keyword in schema for keyword in ("$ref", "anyOf", "allOf")
        ):
            if free is True and path == "the schema" and "additionalProperties" not in schema:
                return None  # a tool without arguments only declares that it takes an object
            return path
    elif isinstance(schema.get("additionalProperties"), dict):
        return path
    for where, part in _parts(schema):
        if (found := open_object(part, f"{path}.{where}")) is not None:
            return found
    return None


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _parts(schema: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the schemas inside a schema, each with its path."""
    found: list[tuple[str, object]] = []
    for keyword in ("properties", "$defs", "definitions"):
        inner = schema.get(keyword)
        if is_object(inner):
            found += inner.items()
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner = schema.get(keyword)
        if is_list(inner):
            found += [(f"{keyword}[{at}]", one) for at, one in enumerate(inner)]
    found.append(("items", schema.get("items")))
    return [(at, one) for at, one in found if is_object(one)]


def _close_schema(schema: JsonObject) -> JsonObject:
    out: JsonObject = {}
    untold: list[str] = []
    for keyword, value in schema.items():
        match keyword:
            case "properties" | "$defs" | "definitions":
                inner = cast("JsonObject", value)
                out[keyword] = {
                    name: _close_schema(part) if is_object(part) else part
                    for name, part in inner.items()
                }
            case "anyOf" | "oneOf" | "allOf":
                inner = [_close_schema(part) for part in value]
                out["anyOf" if keyword == "oneOf" else keyword] = inner
            case "items" if is_object(value):
                out[keyword] = _close_schema(value)
            case "format" if value in _FORMATS:
                out[keyword] = value
            case "minItems" if value in (0, 1):
                out[keyword] = value
            case "description":
                pass
            case _ if keyword in _KEPT:
                out[keyword] = value
            case _ if keyword in _SILENT:
                pass
            case _:
                untold.append(f"{keyword}: {dumps(value).decode()}")
    description = [str(schema["description"])] if schema.get("description") else []
    if untold:
        description.append(f"({', '.join(untold)})")
    if description:
        out["description"] = " ".join(description)
    if _is_object(schema):
        out.setdefault("properties", {})
        out["additionalProperties"] = False
    return out


# How a Claude model is asked to think, over whichever wire: by the row of facts about it.


OFF: Final[JsonObject] = {"type": "disabled"}
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_LEAST: Final = 1024  # tokens: a smaller budget is refused
# tokens for a level, where a model knows budgets only
_BUDGETS: Final = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
_LEVELS: Final = tuple(_BUDGETS)


class Thinks(msgspec.Struct, frozen=True):
    """The thinking part of a request: the provider's own object, and the effort."""

    thinking: JsonObject | None = None
    effort: str | None = None

    @property
    def on(self) -> bool:
        """Whether the model is asked to think."""
        return self.thinking is not None and self.thinking.get("type") != "disabled"

    @property
    def budgeted(self) -> bool:
        """Whether it is asked to think on a budget, which excludes more than other ways do."""
        return self.thinking is not None and self.thinking.get("type") == "enabled"


def is_forced(settings: Settings) -> bool:
    """Check whether the model must call a tool."""
    return settings.tool_choice not in (None, "auto", "none")


def claude_thinking(
    caps: Capabilities, settings: Settings, limit: int, *, forced: bool = False
) -> Thinks:
    """Translate `settings.thinking` for a Claude model, in a reply of at most `limit` tokens.

    A call that may not be declined (`forced`) and thinking on a budget exclude each other: the call
    is then asked for without thinking, since it is what the answer must be.
    """
    thinking = settings.thinking
    options = thinking if isinstance(thinking, dict) else {}
    if "type" in options:
        thinks = Thinks(options)
    elif thinking is None or (caps.known and not caps.thinking):
        return Thinks()
    elif thinking is False or options.get("mode") == "disabled" or options.get("effort") == "none":
        return Thinks(None if caps.always_thinks else OFF)
    else:
        thinks = _lower_thinking(caps, options, settings, limit)
    if forced and thinks.budgeted:
        return Thinks(OFF, thinks.effort)
    return thinks


def _lower_thinking(
    caps: Capabilities, options: JsonObject, settings: Settings, limit: int
) -> Thinks:
    modes = caps.thinking_modes or ("enabled",)  # an unknown model: the oldest way
    asked, budget = options.get("effort"), options.get("budget_tokens")
    effort = nearest_level(asked, caps.efforts)
    on_budget = budget is not None or options.get("mode") == "enabled"
    if "adaptive" in modes and not (on_budget and "enabled" in modes):
        return Thinks({"type": "adaptive"}, effort)
    if "enabled" not in modes:
        return Thinks(None, effort)
    if settings.max_tokens is not None:
        limit = settings.max_tokens
        if limit <= _LEAST:
            return Thinks(OFF, effort)  # a reply this short has no room for a thought
    if budget is None:
        budget = _BUDGETS.get(asked or "", min(8192, limit // 2))
        budget = min(budget, max(limit // 2, _LEAST), caps.thinking_budget[1] or budget)
    elif settings.max_tokens is not None:
        budget = min(budget, limit - 1)  # the reply holds the thoughts and the answer
    return Thinks({"type": "enabled", "budget_tokens": max(budget, _LEAST)}, effort)


def opener(messages: Sequence[Message]) -> Message | None:
    """Return the reply that began the last turn of these messages, if it called tools.

    Calls and their results are one turn, however many there are; whoever else speaks ends it.
    """
    items = messages.strand.items if isinstance(messages, View) else messages
    found: Message | None = None
    for at in range(len(messages) - 1, -1, -1):  # a turn may be as long as the run
        message = items[at]
        if message.role == "assistant":
            found = message
        elif message.role != "tool" and any(map(_speaks, message.content)):
            break
    return found if found is not None and found.tool_calls else None


def _speaks(block: Block) -> bool:
    return type(block) is not Text or bool(block.text.strip())  # blank text is not sent


def nearest_level(asked: object, levels: tuple[str, ...]) -> str | None:
    """Return the model's level nearest to the one asked for, the lower of two."""
    if asked in levels:
        return str(asked)
    known = [level for level in levels if level in _LEVELS]
    if asked not in _LEVELS or not known:
        return None
    place = _LEVELS.index(str(asked))
    return min(known, key=lambda level: (abs(_LEVELS.index(level) - place), _LEVELS.index(level)))


def claude_betas(caps: Capabilities, settings: Settings, *, on: bool) -> list[str]:
    """List the beta features of a request: those asked for, and interleaved thinking.

    The latter is asked for with thinking (`on`) or by itself, and only of models that want to be
    asked: by their row, or because nobody knows them. Others do it unasked, or cannot.
    """
    names = list(settings.beta or ())
    feature = caps.interleaved_beta or ("" if caps.known else INTERLEAVED)
    between = settings.interleaved_thinking
    if feature and (between or (between is None and on and caps.known)):
        names.append(feature)
    return list(dict.fromkeys(names))
