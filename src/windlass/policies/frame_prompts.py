"""Prompts of the frame that a function writes: once in a run, and recorded.

What stands in every request must be known before the first one and stay the same after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, cast

import msgspec

from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolSpec
from windlass.models.base import Frame, Request
from windlass.models.wrappers.text_tools import CONTRACT, describe_tools
from windlass.options.prompts import Words, override, text_of, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.completion import loop_contract

GO_ON: Final = "go_on"


class PromptTexts(msgspec.Struct, frozen=True):
    """The texts that the functions have written."""

    contract: str | None = None
    tools: str | None = None


class FramePrompts(Policy[PromptTexts]):
    """A policy that adds contracts to the system prompt: ends of runs, calls as text."""

    memory = PromptTexts
    brief: ClassVar[bool] = True

    def __init__(
        self,
        contract: Words | None,
        tools: Words | None,
        described: Callable[[tuple[ToolSpec, ...]], str],
    ) -> None:
        self.contract, self.tools, self.described = contract, tools, described

    @property
    def name(self) -> str:
        return "prompts"

    async def before_model(self, run: Run, request: Request) -> Request:
        """Return the request with the prompts in its frame."""
        known: tuple[Frame, Frame] | None = run.cache.get(self)
        if known is None or known[0] is not request.frame:
            frame = self._add_to_frame(request.frame, await self._write_texts(run))
            known = run.cache[self] = (request.frame, frame)
        return Request(request.messages, known[1], request.tail)

    async def _write_texts(self, run: Run) -> PromptTexts:
        """Return the texts; functions write theirs once in a run."""
        given, known = (
            (self.contract, self.tools),
            cast("PromptTexts | None", run.memory.get(self.name)),
        )
        if known is None and any([callable(words) for words in given]):
            known = PromptTexts(
                *[await text_of(words) if callable(words) else None for words in given]
            )
            run.remember(self, known)
        known = known or PromptTexts()
        return PromptTexts(
            self.contract if isinstance(self.contract, str) else known.contract,
            self.tools if isinstance(self.tools, str) else known.tools,
        )

    def _add_to_frame(self, frame: Frame, texts: PromptTexts) -> Frame:
        parts = [frame.system] if frame.system else []
        if texts.contract is not None:
            parts.append(texts.contract)
        if texts.tools is not None and frame.tools:
            parts.append(texts.tools.replace("{tools}", self.described(frame.tools)))
        return Frame("\n\n".join(parts) or None, frame.tools, frame.settings)


class GoOn(Policy[None]):
    """A policy that sends your text where the kernel would send "Continue."."""

    def __init__(self, words: Words) -> None:
        self.words = words

    async def before_turn(self, run: Run) -> None:
        """Add the text where the view ends with the model's own message."""
        items, turn = run.messages, run.turn
        if items and items[-1].role == "assistant":
            if turn is None or turn.stop_reason != "pause_turn":
                run.say(await text_of(self.words), GO_ON)


# --------------------------------------------------------------------------- from options


def build(ctx: BuildContext) -> Policies:
    """Build the policy for frame prompts that are written during a run."""
    given = override(ctx.prompts, "agent.loop_contract")
    contract: Words | None = None
    if given is not None and callable(given.source):
        contract = loop_contract(ctx.values, ctx.prompts, ctx.mode, ctx.sentinel) or None
    tools = override(ctx.prompts, "agent.tool_contract_text") if ctx.mode == "text" else None
    if contract is None and tools is None:
        return ()
    policy = FramePrompts(
        contract,
        None if tools is None else words_of(ctx.prompts, "agent.tool_contract_text", CONTRACT),
        describe_tools,
    )
    return (policy,)


def build_continue(ctx: BuildContext) -> Policies:
    """Build the policy that sends your text in place of "Continue."."""
    if override(ctx.prompts, "agent.continue") is None:
        return ()
    return (GoOn(words_of(ctx.prompts, "agent.continue", "Continue.")),)
