"""The type of the options of `generate`, for editors and type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from windlass.engine.keywords import LoopOptions

if TYPE_CHECKING:
    from windlass.resources.conversation_rows import ConversationResource


class GenerateOpts(LoopOptions, total=False):
    """What `generate` takes: its own options, and what shapes a model call or guards a tool call.

    `max_tokens` is for the whole loop here: prompts, replies and what tools answer.
    """

    tool_mode: Literal["auto", "return"]
    max_tool_iterations: int
    max_output_tokens: int | None
    max_cost_usd: float | None
    tool_parallelism: Literal["parallel", "serial"]
    tool_error_mode: Literal["recover", "abort"]
    include_tool_trace: bool
    conversation: ConversationResource | str | None
    system: str
