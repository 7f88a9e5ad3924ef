"""Previews: what a call would do, found out without doing it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.tools.handlers import own, takes_context


class Rehearsal(msgspec.Struct, frozen=True):
    """The previewed answer of a call, and its changes."""

    result: ToolResult
    diff: tuple[JsonObject, ...] | None = None  # rows: resource, id, {field: [before, after]}
    pinned: JsonObject | None = None  # arguments that the real call must have to do the same
    changes: tuple[Any, ...] = ()  # for previews after this one, by the same kind of tool
    rows: tuple[JsonObject, ...] | None = None  # digests of the rows before and after
    mark: int | None = None  # where the audit log ended
    touched: int = 0  # the entry of a write to these rows since the plan, if any


class ExpectedRows(msgspec.Struct, frozen=True):
    """The expected rows of a call by an approved plan; a run keeps one for each."""

    rows: tuple[JsonObject, ...] | None
    mark: int | None  # where the audit log ended when the plan was made
    own: frozenset[str] = frozenset()  # the plan's calls, `session:call`: their writes are expected
    touched: int = 0


def handler_of(label: str, option: str, value: object, shape: str) -> Callable[..., Any] | None:
    """Check the function of an option such as `undo`, and return it."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    raise ConfigError(f"{label}: {option} is a function {shape}, not {value!r:.80}")


async def call_preview(preview: Callable[..., Any], arguments: JsonObject, ctx: Any) -> Any:
    """Call a tool's own `preview`."""
    copied = own(arguments)
    both = takes_context(preview, f"tool {ctx.tool_name!r}: preview")
    answer = preview(copied, ctx) if both else preview(copied)
    return await answer if inspect.isawaitable(answer) else answer
