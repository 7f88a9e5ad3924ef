"""A result too long for the model is cut; the whole of it stays in the journal."""

from __future__ import annotations

import msgspec

from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.tools.render import cap_result


class ResultCap(Policy[None]):
    """Show the model at most `max_bytes` of any result, head and tail, and say what is missing."""

    def __init__(self, max_bytes: int = 65536) -> None:
        self.max_bytes = max_bytes

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        content = result.content
        if type(content) is not str or len(content) * 4 <= self.max_bytes:
            return result
        shown = cap_result(content, self.max_bytes, call.id)
        return result if shown == content else msgspec.structs.replace(result, content=shown)
