"""What the policies say about one call, asked until all of them have seen the call that will run.

First come those that may change it. Whoever passed an earlier version is asked again about the last
one. Then those that decide are asked, about a call that nobody changes any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.errors import ConfigError
from windlass.loop.approval_request import Source
from windlass.loop.calls import prepare_call
from windlass.loop.plan import as_journaled, digest_of
from windlass.loop.policy import CallVerdict, invalid_answer
from windlass.loop.run import Run
from windlass.loop.verdict import Granted, Refused, Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.tools.handlers import own
from windlass.tools.tool import Tool


class Refusal(msgspec.Struct, frozen=True):
    """A refusal, and its policy; None if the arguments do not fit."""

    rule: str | None
    answer: Refused | ToolResult


class Review:
    """One call before the policies: `ended = await Review(run, tool, call).decide()`."""

    __slots__ = ("answer", "call", "granted", "rule", "run", "sources", "tool")

    def __init__(self, run: Run, tool: Tool, call: ToolCall) -> None:
        self.run, self.tool, self.call = run, tool, call
        self.rule: str = "default"  # the last policy that let it through by name
        self.sources: dict[str, Source] = {}  # who asks, or asked and was answered at once
        self.granted: dict[str, Granted] = {}
        self.answer: ToolResult | None = None  # given in the tool's place, by the policy `rule`

    async def decide(self) -> Refusal | None:
        """Ask every policy; return the refusal, or None if the call may run after its asks."""
        moments = self.run.plan.moments
        if moments.changing and (ended := await self._ask_those_who_change(moments.changing)):
            return ended
        for ask in moments.deciding:
            answer = await self._ask(ask)
            if isinstance(answer, (Refused, ToolResult)) and self._ends(ask, answer):
                return Refusal(ask.__self__.name, answer)
            if isinstance(answer, ToolCall):
                raise ConfigError(
                    f"policy {ask.__self__.name!r} decides about calls and may not change them: "
                    "leave `decides` off, so that it is asked before those that decide"
                )
        return None

    async def _ask_those_who_change(self, asks: Sequence[Any]) -> Refusal | None:
        waiting, changed = list(asks), set[Any]()
        while waiting:
            ask = waiting.pop(0)
            answer = await self._ask(ask)
            if isinstance(answer, (Refused, ToolResult)):
                return Refusal(ask.__self__.name, answer) if self._ends(ask, answer) else None
            # Once each: two that undo one another's change must come to an end.
            if not isinstance(answer, ToolCall) or ask in changed:
                continue
            changed.add(ask)
            self._name(ask.__self__.name)
            fits = prepare_call(self.run, self.tool, answer)
            if isinstance(fits, ToolResult):
                return Refusal(None, fits)
            self.call = fits
            waiting += [each for each in asks if each is not ask and each not in waiting]
        return None

    def _ends(self, ask: Any, answer: Refused | ToolResult) -> bool:
        """Check for a refusal; an answer in the tool's place waits for those that may refuse."""
        if isinstance(answer, Refused) or answer.outcome == "denied":
            return True
        if self.answer is None:
            self.rule, self.answer = ask.__self__.name, answer
        return False

    async def _ask(self, ask: Any) -> CallVerdict:
        """Ask one policy; a call counts as an answer only if its arguments differ."""
        given = msgspec.structs.replace(self.call, arguments=own(self.call.arguments))
        name: str = ask.__self__.name
        answer = await ask(self.run, given)
        self.sources.pop(name, None)
        self.granted.pop(name, None)
        match answer:
            case None | ToolResult() | Refused():
                return answer
            case Suspend():
                self.sources[name] = Source(name, answer)
            case Granted():
                self.granted[name] = answer
                self._name(name)
                if answer.ask is not None:
                    self.sources[name] = Source(name, answer.ask, answer.by or name)
            case ToolCall():
                return self._rewritten_call(name, given, answer)
            case _:
                raise invalid_answer(ask, answer, "the call, a ToolResult, Suspend or None")
        return answer

    def _rewritten_call(self, name: str, given: ToolCall, answer: ToolCall) -> ToolCall | None:
        arguments = as_journaled(answer.arguments, f"what {name} makes of the arguments")
        if digest_of(arguments) != digest_of(self.call.arguments):
            return msgspec.structs.replace(self.call, arguments=arguments)
        if answer is not given:  # a copy: the decision then names this policy
            self._name(name)
        return None

    def _name(self, name: str) -> None:
        """Set the rule of the decision: the last policy that allowed the call, or answered it."""
        if self.answer is None:
            self.rule = name
