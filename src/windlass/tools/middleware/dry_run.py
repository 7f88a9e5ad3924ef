"""Dry runs: the model reads what would have been called, and nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import msgspec

from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.middleware.call_info import asked_call
from windlass.tools.render import to_text
from windlass.tools.tool import Parked, Tool, ToolContext

HARMLESS = frozenset({"read", "search", "fetch", "think"})  # kinds of tools that change nothing


class DryRun(ToolWrapper):
    """A tool that is not run; a later real call of it is still possible."""

    __slots__ = ("words",)

    def __init__(self, inner: Tool, words: str | Callable[..., Any] | None = None) -> None:
        super().__init__(inner)
        self.words = words
        self.effect, self.keyed, self.transactional = "read_only", False, False
        self.handler, self.is_async = inner.handler or _do_nothing, True

    async def call(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Describe what would have happened."""
        given = self.words
        if given is None:
            written = msgspec.json.encode(arguments, enc_hook=to_text).decode()
            return ToolResult(content=f"Dry run: {self.name} was not run. Arguments: {written}")
        if isinstance(given, str):
            return ToolResult(content=given)
        try:
            answer = given(asked_call(self.inner, arguments, ctx))
            return self._finish(await answer if isawaitable(answer) else answer)
        except Exception as error:
            return self._error_result(error)


def _do_nothing(_arguments: JsonObject) -> None:
    """Do nothing, in place of a tool that the host would have run."""


def changes_something(tool: Tool) -> bool:
    """Check whether a call of the tool may have an effect."""
    return tool.effect != "read_only" and tool.annotations.get("kind") not in HARMLESS
