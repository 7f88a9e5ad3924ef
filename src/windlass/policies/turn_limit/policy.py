"""The limit on turns: fixed, or low at first and raised while there is progress.

After each turn that is to be followed by another, `loop_control` looks at a snapshot and may raise
the limit, up to its maximum, or end the run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import LoopControlDecision
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Outcome, Stop
from windlass.policies.build import BuildContext, Policies
from windlass.policies.completion import CompletionOptions
from windlass.policies.facts import Groups, tally
from windlass.policies.loop_state import LoopState, limit_of, state_of
from windlass.policies.turn_limit.options import TurnLimitOptions, Turns

Command: TypeAlias = Mapping[str, Any] | None
Control: TypeAlias = Callable[[LoopState], Command | Awaitable[Command]]
_ACTIONS = ("none", "extend", "stop")
_KEYS = ("action", "by", "until", "reason", "status")


def build(ctx: BuildContext) -> Policies:
    """Build the policy, where the limit moves or a function controls it."""
    turns, control = ctx.turns, TurnLimitOptions.read(ctx.values).loop_control
    if turns is None or (control is None and turns.mode != "adaptive" and not turns.expose):
        return ()
    return (LoopControl(turns, control, CompletionOptions.read(ctx.values).required_tools),)


class Controls(Facts):
    """The decisions about the limit so far."""

    def __init__(self) -> None:
        self.decisions: list[LoopControlDecision] = []
        self.extensions = 0

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {LoopControlDecision: self._read_decision}

    def _read_decision(self, entry: LoopControlDecision) -> None:
        self.decisions.append(entry)
        self.extensions += entry.action == "extend"

    @property
    def last(self) -> LoopControlDecision | None:
        """The latest decision."""
        return self.decisions[-1] if self.decisions else None


class LoopControl(Policy[None]):
    """A policy that asks your function after each turn, or extends on progress."""

    def __init__(self, turns: Turns, control: Control | None = None, required: Groups = ()) -> None:
        self.turns, self.control, self.required = turns, control, required

    async def start(self, run: Run) -> None:
        _allow(run, self._limit(run))

    async def before_turn(self, run: Run) -> Stop | None:
        if run.turn is None or tally(run).revised:
            return None
        known = run.facts(Controls)
        decision = known.last
        if decision is None or decision.iteration != run.iteration:
            decision = await self._decided(run, known.extensions)
        if decision is None:
            return None
        if decision.action == "stop":
            return Stop(decision.status or "stopped", decision.reason or "loop_control")
        _allow(run, decision.new_limit)
        return None

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        if not self.turns.expose:
            return outcome
        known = run.facts(Controls)
        summary = {
            "mode": self.turns.mode,
            "initial": self.turns.initial,
            "max": self.turns.max,
            "final_limit": self._limit(run),
            "extensions_used": known.extensions,
            "decisions": [_decision(entry) for entry in known.decisions],
        }
        return msgspec.structs.replace(
            outcome, fields={**outcome.fields, "adaptive_budget": summary}
        )

    def _limit(self, run: Run) -> int:
        last = run.facts(Controls).last
        return self.turns.initial if last is None else last.new_limit

    async def _decided(self, run: Run, extensions: int) -> LoopControlDecision | None:
        """Decide and record what is to happen; None for nothing."""
        standing = limit_of(run, extensions, self.turns.max)
        answer = self._answer(state_of(run, standing, self.required))
        if answer is None:
            return None
        if inspect.isawaitable(answer):
            answer = await answer
        command = _parse_command(answer)
        action, reason = command.get("action", "none"), command.get("reason")
        old = new = standing.current_limit
        if action == "stop":
            status = command.get("status") or "stopped"
            decision = LoopControlDecision(run.iteration, "stop", old, old, reason, status)
        elif action == "extend" and (new := self._extended_limit(command, old)) > old:
            decision = LoopControlDecision(run.iteration, "extend", old, new, reason)
        else:
            return None
        run.note(decision)
        return decision

    def _answer(self, state: LoopState) -> Command | Awaitable[Command]:
        if self.control is not None:
            return self.control(state)
        return _default(state) if self.turns.mode == "adaptive" else None

    def _extended_limit(self, command: Mapping[str, Any], old: int) -> int:
        until, by = command.get("until"), command.get("by")
        if until is None:
            step = by if isinstance(by, int) and by > 0 else self.turns.extend_by
            until = old + step
        return max(old, min(int(until), self.turns.max))


def _default(state: LoopState) -> Mapping[str, Any]:
    """Extend at the limit if the end was refused, tools are missing, or a tool was called."""
    if state.budget.remaining > 0:
        return {}
    if state.completion.vetoed:
        return {"action": "extend", "reason": "completion gate vetoed"}
    if not state.session.required_tools_satisfied:
        lacking = ", ".join(state.session.required_tools_missing)
        return {"action": "extend", "reason": f"required tools missing: {lacking}"}
    if state.turn.tool_call_count:
        return {"action": "extend", "reason": state.progress.summary}
    return {}


def _parse_command(answer: object) -> Mapping[str, Any]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise ConfigError(f"loop_control answers a dict or None, not {safe_repr(answer)}")
    command = cast("Mapping[str, Any]", answer)
    for key in command:
        if key not in _KEYS:
            raise ConfigError(f"loop_control answers no {key!r}{nearest(str(key), _KEYS)}")
    action = command.get("action", "none")
    if action not in _ACTIONS:
        raise ConfigError(
            f"loop_control answers an action of {', '.join(_ACTIONS)}, not {safe_repr(action)}"
        )
    for key in ("by", "until"):
        value = command.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ConfigError(f"loop_control: {key} is a whole number, not {safe_repr(value)}")
    for key in ("reason", "status"):
        value = command.get(key)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"loop_control: {key} is a text, not {safe_repr(value)}")
    return command


def _allow(run: Run, turns: int) -> None:
    run.ledger.limits = msgspec.structs.replace(run.ledger.limits, iterations=turns)


def _decision(entry: LoopControlDecision) -> dict[str, Any]:
    fields = ("iteration", "action", "old_limit", "new_limit", "reason", "status")
    return {name: getattr(entry, name) for name in fields}
