"""Policies of one `generate`: so many rounds of tools, no failed call."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.events import BudgetExhausted, ToolMessage, ToolResulted
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop
from windlass.messages import Message, ToolCall, ToolResult, characters


class _Rounds(Facts):
    """The number of rounds of calls that were answered."""

    def __init__(self) -> None:
        self.count = 0

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {ToolMessage: self._read_results}

    def _read_results(self, entry: ToolMessage) -> None:
        self.count += 1


class ToolRounds(Policy[None]):
    """A policy that ends the run after so many rounds of calls."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def after_reply(self, run: Run, turn: Turn) -> Stop | None:
        rounds = run.facts(_Rounds).count
        if not turn.calls or rounds < self.most:
            return None
        run.note(BudgetExhausted("max_tool_iterations", self.most, rounds))
        return Stop("budget_exhausted", "max_tool_iterations")


class ReturnCalls(Policy[None]):
    """A policy that ends the run at the first reply: the caller runs its calls."""

    async def after_reply(self, run: Run, turn: Turn) -> Stop | None:
        return Stop("done", "tool_calls") if turn.calls else None


class NoFailure(Policy[None]):
    """A policy that ends the run at the first call that fails."""

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult | Stop:
        if not result.is_error:
            return result
        text = f"{call.name} failed: {result.text}"
        return Stop("failed", "tool_error", {"message": text, "tool": call.name})


class ToolOutputCounts(Policy[None]):
    """A policy that counts tool results as tokens of the run: four characters a token."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes  # of a result that the model sees

    async def start(self, run: Run) -> None:
        """Count the results that a resumed run already has."""
        for entry in run.own_entries:
            if type(entry) is ToolResulted:
                self._enter(run, entry.call_id, entry.result)

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        self._enter(run, call.id, result)
        return result

    async def after_turn(self, run: Run, turn: Turn) -> Stop | None:
        spent = run.ledger.exceeded_limit()
        if spent is None:
            return None
        run.note(BudgetExhausted(spent.limit, spent.allowed, spent.used))
        return Stop("budget_exhausted", spent.limit)

    def _enter(self, run: Run, call_id: str, result: ToolResult) -> None:
        known: set[str] = run.cache.setdefault(ToolOutputCounts, set())
        if call_id not in known:
            known.add(call_id)
            size = min(characters([Message("tool", (result,))]), self.max_bytes)
            run.ledger.settle(None, -(-size // 4), 0.0)
