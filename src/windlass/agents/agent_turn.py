"""One request, done to the end: a loop with a judge that must agree before it counts as done."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from windlass.agents.agent_loop import run_loop
from windlass.engine.results import LoopResult
from windlass.errors import ConfigError
from windlass.events import IterationEnd, IterationStart, JudgeDecision, Replied, ToolResulted
from windlass.options.parse import merge_options
from windlass.options.signature import show_options
from windlass.records import Record

if TYPE_CHECKING:
    from windlass.engine.keyword_lists import take_turn_options
    from windlass.engine.keywords import TurnKeywords

GUIDANCE = (
    "Work on the request until it is done. Take one concrete step at a time, use the tools you have, "
    "and base what you say on what they returned. When everything that was asked for is done, give "
    "the final answer."
)


class IterationSummary(Record, frozen=True):
    """A summary of one turn: `result.iterations[0].tool_count`."""

    iteration: int
    started: bool = True
    ended: bool = False
    tool_count: int | None = None
    prose_chars: int | None = None


class JudgeSummary(Record, frozen=True):
    """A decision of a judge: `result.judge_decisions[0].verdict`."""

    iteration: int
    verdict: str
    reasoning: str | None
    next_step: str | None
    judge_duration_ms: float
    trigger: str | None = None


class TurnResult(LoopResult):
    """The result of `agent_turn`: a `LoopResult` with its turns and the judge's decisions."""

    @cached_property
    def iterations(self) -> list[IterationSummary]:
        """Every turn that began."""
        turns: dict[int, IterationSummary] = {}
        number = 0
        for entry in self.entries:
            match entry:
                case IterationStart():
                    number = entry.number
                    turns[number] = IterationSummary(number)
                case Replied(purpose=None) if number in turns:
                    size = len(entry.message.text)
                    turns[number] = msgspec.structs.replace(
                        turns[number], tool_count=0, prose_chars=size
                    )
                case ToolResulted() if number in turns:
                    count = (turns[number].tool_count or 0) + 1
                    turns[number] = msgspec.structs.replace(turns[number], tool_count=count)
                case IterationEnd() if entry.number in turns:
                    turns[number] = msgspec.structs.replace(turns[entry.number], ended=True)
                case _:
                    pass
        return list(turns.values())

    @cached_property
    def judge_decisions(self) -> list[JudgeSummary]:
        """All decisions of judges, in order: `decision.verdict`, `decision.iteration`."""
        return [
            JudgeSummary(
                entry.iteration,
                entry.verdict,
                entry.reasoning,
                entry.next_step,
                entry.judge_duration_ms,
                entry.trigger,
            )
            for entry in self.entries
            if type(entry) is JudgeDecision
        ]

    def to_dict(self) -> dict[str, Any]:
        """Convert everything to plain data."""
        summaries = {"iterations": self.iterations, "judge_decisions": self.judge_decisions}
        return {**super().to_dict(), **msgspec.to_builtins(summaries)}


async def agent_turn(
    prompt: Any = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Unpack[TurnKeywords],
) -> TurnResult:
    """Run an agent on one request until a judge agrees; return a `TurnResult`.

    ```python
    result = await w.agent_turn("Summarize the risks.", system="Be concise.", model="openai:gpt-5")
    print(result.visible_text, result.judge_decisions[0].verdict)
    ```
    It is `agent_loop` with `loop_until_done` and `done_judge` (here also `judge`), and takes the
    same options.
    """
    if TYPE_CHECKING:
        take_turn_options(**more)
    typed = merge_options(options, more, "agent_turn")
    if "judge" in typed:
        if "done_judge" in typed:
            raise ConfigError("judge and done_judge are the same option: give one")
        typed["done_judge"] = typed.pop("judge")
    for name in ("done_judge", "loop_until_done"):
        if typed.setdefault(name, True) in (False, None):
            raise ConfigError(
                f"agent_turn needs {name}: it ends only when a judge agrees; agent_loop does without"
            )
    native = typed.get("tools") and typed.get("tool_format") != "text"
    if not native and typed.get("done_sentinel", "") is None:
        raise ConfigError(
            "agent_turn without native tools ends on a sentinel: leave done_sentinel out, or name one"
        )
    system = typed.pop("system", None)
    typed["system"] = f"{system}\n\n{GUIDANCE}" if system else GUIDANCE
    return await run_loop(prompt, typed, "agent_turn", TurnResult)


show_options(agent_turn, "take_turn_options")
