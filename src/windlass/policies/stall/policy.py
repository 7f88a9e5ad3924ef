"""A run that repeats itself: warned, redirected, held back or ended, as configured.

One policy, three configurations: adjacent repeats of a call (`stall_diagnostics`), tiers by how
often a call gave the same result (`loop_detect_*`), whole turns in a window (`loop_detection`).
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.events import LoopDetected, StallWarning
from windlass.loop.plan import digest_of
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Outcome, Stop
from windlass.messages import Text, ToolCall, ToolResult
from windlass.policies.build import BuildContext, Policies
from windlass.policies.facts import tally
from windlass.policies.stall.options import (
    ACTIONS,
    Action,
    Handler,
    LoopDetection,
    LoopDetectionInfo,
    LoopTiers,
    StallDiagnostics,
    StallOptions,
)
from windlass.policies.stall.repetition import Repeats, repeats, signature


def build(ctx: BuildContext) -> Policies:
    """Build the policy, if any option asks for it."""
    options = StallOptions.read(ctx.values)
    diagnostics = options.stall_diagnostics
    if diagnostics is not None and not diagnostics.enabled:
        diagnostics = None
    tiers = _build_tiers(options)
    if diagnostics is None and options.loop_detection is None and tiers is None:
        return ()
    if diagnostics is not None:
        ctx.check_tool_names("stall_diagnostics.exempt_tools", diagnostics.exempt_tools)
    return (Stall(diagnostics, tiers, options.loop_detection),)


def _build_tiers(options: StallOptions) -> LoopTiers | None:
    given = (options.loop_detect_warn, options.loop_detect_block, options.loop_detect_skip)
    if given == (None, None, None):
        return None
    warn, block, skip = (
        usual if value is None else value for value, usual in zip(given, (2, 3, 4), strict=True)
    )
    if warn == 0:  # the value for off
        return None
    if not warn <= block <= skip:
        raise ConfigError(
            f"loop_detect_warn, _block and _skip come in this order, not {warn}, {block}, {skip}"
        )
    return LoopTiers(warn, block, skip)


class Stall(Policy[None]):
    """A policy that checks each reply before its calls run, and each result."""

    decides = True

    def __init__(
        self,
        diagnostics: StallDiagnostics | None = None,
        tiers: LoopTiers | None = None,
        detection: LoopDetection | None = None,
    ) -> None:
        self.diagnostics, self.tiers, self.detection = diagnostics, tiers, detection
        exempt = diagnostics.exempt_tools if diagnostics is not None else ()
        self.exempt = frozenset(exempt)

    # ----------------------------------------------------------------- moments

    async def after_reply(self, run: Run, turn: Turn) -> Stop | None:
        seen = repeats(run, self.exempt)
        if self.diagnostics is not None:
            _adjacent(run, turn, seen, self.diagnostics)
        if (rules := self.detection) is None:
            return None
        found = seen.detected
        if found is None and (info := _whole_turns(turn, seen, rules)) is not None:
            action = await _action(rules.on_loop_detected, info)
            if action in ("warn", "inject") and not seen.armed:
                action = "terminate"  # it was warned, and repeats the call
            found = LoopDetected(run.iteration, info.kind, info.detail, action, info.repetitions)
            run.note(found)
        return Stop("stuck", "loop_detected") if found and found.action == "terminate" else None

    async def before_turn(self, run: Run) -> None:
        """Tell the model of the repetition before the next turn."""
        counted, rules = tally(run), self.diagnostics
        if rules is not None and rules.inject_feedback and counted.warnings:
            if "stall" not in counted.heard and counted.told["stall"] < rules.max_feedback:
                last = counted.warnings[-1]
                run.say(
                    f"You called {last.tool_name} {last.repeat_count} times in a row with the same "
                    f"arguments. {_REDIRECT}",
                    "stall",
                )
        if self.detection is not None and "loop_detected" not in counted.heard:
            found = repeats(run, self.exempt).detected
            if found is not None and found.action in ("warn", "inject"):
                run.say(f"You repeat yourself: {found.detail}. {_REDIRECT}", "loop_detected")

    def passes(self, run: Run, call: ToolCall) -> bool:
        return self.tiers is None or repeats(run, self.exempt).most + 1 < self.tiers.skip

    async def before_tool(self, run: Run, call: ToolCall) -> ToolResult | None:
        if self.tiers is None or self.passes(run, call):
            return None
        seen = repeats(run, self.exempt)
        times, _ = seen.counts.get(signature(call), (0, ""))
        if times + 1 < self.tiers.skip:
            return None
        text = (
            f"rejected_loop: not run, {call.name} gave the same result {times} times. {_REDIRECT}"
        )
        return ToolResult(call.id, text, True, call.name, "denied")

    def leaves(self, run: Run, call: ToolCall, result: ToolResult) -> bool:
        tiers = self.tiers
        if tiers is None:
            return True
        seen = repeats(run, self.exempt)
        return seen.most < tiers.warn or seen.count_of.get(call.id, 0) < tiers.warn

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        if self.tiers is None:
            return result
        times = repeats(run, self.exempt).count_of.get(call.id, 0)
        if times >= self.tiers.block:
            text = f"{call.name} gave the same result {times} times. {_REDIRECT}"
            return msgspec.structs.replace(result, content=text)
        if times >= self.tiers.warn:
            hint = f"[{call.name} has now given this same result {times} times. {_REDIRECT}]"
            content = result.content
            if isinstance(content, str):
                return msgspec.structs.replace(result, content=f"{content}\n\n{hint}")
            return msgspec.structs.replace(result, content=(*content, Text(hint)))
        return result

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        fields = dict(outcome.fields)
        entries = run.own_entries
        if self.diagnostics is not None:
            warnings = [_to_fields(entry) for entry in entries if type(entry) is StallWarning]
            fields["repeated_tool_calls"] = repeats(run, self.exempt).streak.repeated
            fields["stall_warnings"] = warnings
            fields["suspected_loop"] = bool(warnings)
        if self.detection is not None:
            fields["loop_detected"] = outcome.stop_reason == "loop_detected"
        return msgspec.structs.replace(outcome, fields=fields)


_REDIRECT = "Try something else, or say what keeps you from going on."


def _adjacent(run: Run, turn: Turn, seen: Repeats, rules: StallDiagnostics) -> None:
    for call in turn.calls:
        times = seen.streaks.get(call.id, 0)
        if times < rules.threshold:
            continue
        mark = signature(call)
        noted = {(it.signature_digest, it.repeat_count) for it in tally(run).warnings}
        if (mark, times) in noted:
            continue
        run.note(
            StallWarning(
                run.iteration,
                call.name,
                times,
                rules.threshold,
                digest_of(call.arguments),
                mark,
                call.arguments if rules.include_arguments else None,
            )
        )


def _whole_turns(turn: Turn, seen: Repeats, rules: LoopDetection) -> LoopDetectionInfo | None:
    most = rules.max_repetitions
    window = max(rules.window, most)  # what is further back is not looked at
    if turn.calls and seen.turns.times >= most:
        calls, names = min(seen.turns.times, window), ", ".join(call.name for call in turn.calls)
        detail = f"the same calls {calls} turns in a row: {names}"
        return LoopDetectionInfo("tool_repetition", detail, calls)
    if seen.texts.times >= most and turn.text.strip():
        texts = min(seen.texts.times, window)
        return LoopDetectionInfo("text_repetition", f"the same words {texts} turns in a row", texts)
    return None


async def _action(asked: Action | Handler, info: LoopDetectionInfo) -> str:
    if not callable(asked):
        return asked
    answer = asked(info)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        return "continue"
    if answer not in ACTIONS:
        raise ConfigError(f"on_loop_detected answers {', '.join(ACTIONS)}, not {safe_repr(answer)}")
    return answer


def _to_fields(entry: StallWarning) -> dict[str, Any]:
    fields = msgspec.to_builtins(entry)
    fields.pop("kind", None)
    return fields
