"""The limit on a result's length for the model; the journal keeps all of it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.options.checks import number
from windlass.options.group import Option, OptionGroup
from windlass.policies.build import BuildContext, Policies
from windlass.tools.render import cap_result


class ResultCapOptions(OptionGroup, frozen=True, kw_only=True):
    """The size of tool results."""

    tool_result_max_bytes: Annotated[int, Option(number(200, whole=True))] = 65536
    """Bytes of a result that the model sees; the journal keeps all of it."""


class ResultCap(Policy[None]):
    """A policy that shows the model at most `max_bytes` of a result, head and tail."""

    def __init__(self, max_bytes: int = 65536) -> None:
        self.max_bytes = max_bytes

    def leaves(self, run: Run, call: ToolCall, result: ToolResult) -> bool:
        content = result.content
        return type(content) is not str or len(content) * 4 <= self.max_bytes

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        content = result.content
        if type(content) is not str or len(content) * 4 <= self.max_bytes:
            return result
        shown = cap_result(content, self.max_bytes, call.id)
        return result if shown == content else msgspec.structs.replace(result, content=shown)


_DEFAULT = ResultCap()  # shared by all with default options


def build(ctx: BuildContext) -> Policies:
    """Build the policy that cuts results."""
    size = ResultCapOptions.read(ctx.values).tool_result_max_bytes
    return (_DEFAULT if size == _DEFAULT.max_bytes else ResultCap(size),)
