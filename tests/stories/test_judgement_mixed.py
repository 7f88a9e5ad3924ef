"""Any mix of judgement's options, with a model and judges that say anything: every promise holds.

The model's word depends on nothing but what it is asked, so a run that is killed anywhere can be
compared with the one that was not.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept
from tests.stories.judge_helpers import (
    fields_of,
    from_every_place,
    is_judged,
    look,
    sent_as,
)
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel

STATUSES = {
    "done",
    "stuck",
    "budget_exhausted",
    "verify_capped",
    "verify_exhausted",
    "unverified",
    "failed",
    "stopped",
    "incomplete",
}


@w.tool(side_effect_level="none")
async def broken() -> str:
    """Always fails, and may be tried again."""
    raise ValueError("out of order")


WRITTEN = '<tool_call>{"name": "look", "arguments": {"text": "a"}}</tool_call>'


def model_of(seed: int) -> ScriptedModel:
    """Says anything at all, and the same whenever it is asked the same."""

    def reply(request: w.Request) -> Any:
        digest = blake2b(sent_as(request) + str(seed).encode(), digest_size=8)
        dice = random.Random(digest.hexdigest())
        if is_judged(request):
            return _verdict(dice)
        return _step(dice, digest.hexdigest())

    return scripted(then=reply)


def _verdict(dice: random.Random) -> Any:
    word = dice.choice(["done", "continue", "pass", "revise", "done", "pass", "?"])
    if dice.random() < 0.15:
        return dice.choice(["nothing to say", '{"verdict": "done"}', "{", ""])
    return call("give_verdict", verdict=word, reasoning="so", next_step="on", critique="no")


def _step(dice: random.Random, name: str) -> Any:
    def asked(number: int = 0) -> w.ToolCall:
        tool = dice.choice(["look", "look", "look", "add", "broken", "nobody"])
        given: dict[str, Any] = {"look": {"text": dice.choice("ab")}, "add": {"a": 1, "b": 2}}
        return w.ToolCall(f"c{number}-{name}", tool, given.get(tool, {}))

    return dice.choice(
        [
            lambda: asked(),
            lambda: [asked(), asked(1)],
            lambda: ["Let me see.", asked()],
            lambda: "Let me see.",
            lambda: f"It is {dice.random()}.",
            lambda: "Done. ##DONE##",
            lambda: ["Done. ##DONE##", asked()],
            lambda: " ",
            lambda: WRITTEN,
            lambda: "word " * 20,
        ]
    )()


def options_of(seed: int) -> dict[str, Any]:
    """Some of the options, with some of their values."""
    dice = random.Random(seed)
    checks = [lambda: True, lambda p: "not yet" if len(p.messages) < 7 else None]
    few = dice.choice([0, 1, 2])
    choices: dict[str, list[Any]] = {
        "loop_until_done": [True],
        "done_sentinel": ["##DONE##"],
        "max_nudges": [0, 1, 3],
        "verify_completion": [checks[1], checks, [checks[0]]],
        "verify_completion_judge": [True, {"max_invocations": few}],
        "done_judge": [
            True,
            {"max_invocations": few},
            {"cadence": {"every": 2}},
            {"cadence": {"when": "stalled"}},
            {"cadence": {"min_iterations_before_first": 2, "max_invocations": 2}},
        ],
        "max_verify_attempts": [1, 2, 20],
        "step_judge": [{}, {"on_veto": "retain", "max_attempts": 1}, {"skip_when_stalled": False}],
        "stall_diagnostics": [True, {"threshold": 2, "max_feedback": 3}],
        "loop_detect_warn": [1, 2],
        "loop_detection": [True, {"max_repetitions": 2}, {"on_loop_detected": "terminate"}],
        "iteration_budget": ["adaptive", {"mode": "adaptive", "initial": 1, "max": 9}],
        "loop_control": [_control],
        "turn_policy": [{"require_action_or_yield": True, "max_prose_chars": 30}],
        "stop_after_successful_tools": [["add"]],
        "native_tool_fallback": ["allow", "allow_once", "reject"],
        "require_successful_tools": [["look"], [["add", "broken"]]],
        "post_turn_callback": [_callback],
    }
    chosen = dice.sample(sorted(choices), dice.randint(2, 8))
    return {name: dice.choice(choices[name]) for name in chosen}


def _control(state: w.LoopState) -> Any:
    if state.session.rejected_tool_names and state.iteration > 6:
        return {"action": "stop", "status": "incomplete"}
    return {"action": "extend", "by": 1} if state.budget.remaining == 0 else None


def _callback(turn: Any) -> Any:
    if "nobody" in turn.rejected_tool_names:
        return "there is no such tool"
    return turn.iteration == 8


def agent_of(seed: int) -> tuple[w.Agent[Any, Any], ScriptedModel]:
    model = model_of(seed)
    return w.Agent(model, tools=[look, add, broken], **options_of(seed)), model


@pytest.mark.parametrize("seed", range(24))
async def test_whatever_is_mixed_every_promise_holds(seed: int):
    agent, model = agent_of(seed)
    out = await agent.run("go")
    assert out.status in STATUSES, (out.status, out.error)
    assert out.error is None
    await kept(out, model)


@pytest.mark.parametrize("seed", range(24))
async def test_whatever_is_mixed_it_goes_on_from_every_place(seed: int):
    await from_every_place(lambda: agent_of(seed))


@pytest.mark.parametrize("seed", range(24))
async def test_whatever_is_mixed_the_order_of_its_options_does_not_matter(seed: int):
    """The policies stand in the order that we chose, not in that of the options."""
    options = options_of(seed)
    ends: list[Any] = []
    for order in (list(options), list(reversed(options))):
        model = model_of(seed)
        given = {name: options[name] for name in order}
        ends.append(fields_of(await w.Agent(model, tools=[look, add, broken], **given).run("go")))
    assert ends[0] == ends[1]
