"""Answers to forms: what an MCP server asks a person, in words, and the check of what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError, InvalidAnswer
from windlass.events.receipts import elicitation_of
from windlass.json_types import JsonObject, is_list, is_object
from windlass.tools.arguments.validate import Checker

_MOST_FIELDS: Final = 40  # of a form that are described
_LONGEST: Final = 300  # characters of a line
_KINDS: Final = {"string": "text", "boolean": "true or false", "integer": "whole number"}


def describe_form(asked: Mapping[str, Any]) -> list[str]:
    """Describe the fields of a question, one line each; the address where it has one."""
    lines: list[str] = []
    if asked.get("url"):
        lines.append(f"open {asked['url']}")
    schema: object = asked.get("schema")
    fields: object = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(fields):
        return lines
    needed: object = schema.get("required")
    for name, field in list(fields.items())[:_MOST_FIELDS]:
        if is_object(field):
            is_needed = is_list(needed) and name in needed
            lines.append(_describe_field(name, field, is_needed=is_needed)[:_LONGEST])
    return lines


def _describe_field(name: str, field: JsonObject, *, is_needed: bool) -> str:
    words = [_KINDS.get(str(field.get("type")), str(field.get("type") or "any value"))]
    if chosen := list_choices(field):
        several = field.get("type") == "array"
        words = [f"{'some' if several else 'one'} of {', '.join(map(_as_json, chosen))}"]
    if "default" in field:
        words.append(f"default {_as_json(field['default'])}")
    elif is_needed:
        words.append("required")
    about = field.get("description") or field.get("title")
    return f"{name}: {', '.join(words)}{f' ({about})' if about else ''}"


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def list_choices(field: Mapping[str, Any]) -> list[object]:
    """List the values that a field may have; empty where it may have any."""
    items: object = field.get("items")
    if is_object(items):
        return list_choices(items)
    listed: object = field.get("enum")
    if is_list(listed):
        return list(listed)
    titled: object = field.get("oneOf") or field.get("anyOf")
    return (
        [one["const"] for one in titled if is_object(one) and "const" in one]
        if is_list(titled)
        else []
    )


def fill_defaults(
    schema: Mapping[str, Any] | None, content: Mapping[str, Any] | None
) -> JsonObject:
    """Return the content with the defaults of the schema for what is left out."""
    fields: object = (schema or {}).get("properties")
    filled: JsonObject = {}
    for name, field in fields.items() if is_object(fields) else ():
        if is_object(field) and "default" in field:
            filled[name] = field["default"]
    return {**filled, **(content or {})}


def find_form_problems(
    schema: Mapping[str, Any] | None, content: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """List what is wrong with an answer; none for a schema that is no schema itself."""
    if schema is None:
        return ()
    try:
        checker = Checker({**schema, "type": "object"}, "the form")
    except ConfigError:
        return ()  # the server's mistake, which it may see for itself
    return checker.problems(fill_defaults(schema, content))


def check_form_answer(
    tool: str, receipt: JsonObject | None, content: Mapping[str, Any] | None
) -> None:
    """Refuse to approve a question with an answer that does not fit its form."""
    asked = elicitation_of(receipt)
    if asked is None or not is_object(schema := asked.get("schema")):
        return
    if problems := find_form_problems(schema, content):
        wrong = [line.partition(":")[0].partition("/")[0] for line in problems]
        fields = [one for one in describe_form(asked) if one.partition(":")[0] in wrong]
        form = f". The form: {'; '.join(fields)}" if fields else ""
        raise InvalidAnswer(
            f"{tool} asks for content={{…}} (--content), and this does not fit: "
            f"{'; '.join(problems)}{form}"
        )
