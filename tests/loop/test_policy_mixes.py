"""Any mix of policies, in any order: strengths decide, and every end is a clean one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    note,
)
from tests.stories.judge_helpers import is_judged
from windlass.errors import AuthFailed
from windlass.runtime.runtime import Runtime
from windlass.testing import call, scripted

# One verdict of each strength: among equals the first would win, and order would matter.
VERDICTS: dict[str, w.Verdict | None] = {
    "stop": w.Stop("stopped", "enough"),
    "suspend": w.Suspend("waiting"),
    "keep_going": w.KeepGoing("more"),
    "finish": w.Finish("seen enough"),
    "nothing": None,
}
MOMENTS = ("before_turn", "after_reply", "after_turn", "before_finish")
ALLOWED = {
    "before_turn": ("stop", "nothing"),
    "after_reply": ("stop", "nothing"),
    "after_turn": tuple(VERDICTS),
    "before_finish": ("keep_going", "nothing"),
}


class Voter(w.Policy[None]):
    """Says at each moment of each turn what it was told to say."""

    def __init__(self, name: str, says: dict[str, list[str]]) -> None:
        self._name, self.says = name, says

    @property
    def name(self) -> str:
        return self._name

    def at(self, moment: str, turn: int) -> Any:
        said = self.says[moment]
        return VERDICTS[said[turn % len(said)]]

    async def before_turn(self, run: w.Run) -> Any:
        return self.at("before_turn", run.iteration) if run.iteration else None

    async def after_reply(self, run: w.Run, turn: w.Turn) -> Any:
        return self.at("after_reply", turn.number)

    async def after_turn(self, run: w.Run, turn: w.Turn) -> Any:
        return self.at("after_turn", turn.number)

    async def before_finish(self, run: w.Run, turn: w.Turn, finish: w.Finish) -> Any:
        return self.at("before_finish", turn.number)


def mostly_nothing(moment: str) -> st.SearchStrategy[list[str]]:
    some = [*ALLOWED[moment], *["nothing"] * 6]
    return st.lists(st.sampled_from(some), min_size=1, max_size=5)


MIXES = st.lists(
    st.fixed_dictionaries({moment: mostly_nothing(moment) for moment in MOMENTS}),
    min_size=1,
    max_size=5,
)


def ran(work: Coroutine[Any, Any, Any]) -> Any:
    """What comes of it, in a world of its own."""

    async def alone() -> Any:
        async with Runtime(store="memory:", environ={}):
            return await work

    return asyncio.run(alone())


async def voted(voters: list[Voter], replies: list[Any]) -> tuple[Any, ...]:
    model = scripted(*replies, then="ok")
    out = await w.agent_loop(
        "go", model=model, tools=[add], policies=voters, max_iterations=len(replies) + 3
    )
    await kept(out, model)
    return out.status, out.stop_reason, out.llm.iterations, [m.text for m in out.all_messages]


@settings(max_examples=60)
@given(mix=MIXES, calls=st.lists(st.booleans(), max_size=5), order=st.randoms())
def test_the_order_of_policies_does_not_matter_where_strengths_decide(
    mix: list[dict[str, list[str]]], calls: list[bool], order: random.Random
):
    replies = [call("add", a=n, b=1) if does else f"words {n}" for n, does in enumerate(calls)]
    voters = [Voter(f"V{number}", says) for number, says in enumerate(mix)]
    shuffled = order.sample(voters, len(voters))
    assert ran(voted(voters, replies)) == ran(voted(shuffled, replies))


# --------------------------------------------------------------------------- the real ones


def extends(state: Any) -> Any:
    return {"action": "extend", "by": 1} if state.budget.remaining < 1 else None


def stops(state: Any) -> Any:
    return {"action": "stop", "reason": "r"} if state.iteration > 3 else None


def talks(turn: Any) -> Any:
    return f"after {turn.iteration}" if turn.iteration % 2 else None


def ends(turn: Any) -> Any:
    return {"stop": turn.iteration > 2}


def half(proposal: Any) -> str | None:
    return None if len(proposal.messages) > 6 else "too little"


async def never() -> bool:
    return False


OPTIONS: dict[str, list[Any]] = {
    "done_judge": [
        True,
        {"max_invocations": 1},
        {"cadence": {"every": 2}},
        {"cadence": {"when": "stalled"}},
    ],
    "verify_completion": [half, [half], [never], lambda: None],
    "verify_completion_judge": [True, {"max_invocations": 1}],
    "max_verify_attempts": [1, 2],
    "step_judge": [{}, {"on_veto": "retain"}, {"max_attempts": 1}],
    "stall_diagnostics": [True, {"threshold": 2, "max_feedback": 0}],
    "loop_detect_warn": [1, 2],
    "loop_detection": [True, {"on_loop_detected": "terminate", "max_repetitions": 2}],
    "iteration_budget": [
        "adaptive",
        {"mode": "adaptive", "initial": 2, "max": 6},
        {"mode": "fixed", "max": 5},
    ],
    "loop_control": [extends, stops],
    "post_turn_callback": [talks, ends, lambda turn: {"veto": turn.iteration < 2}],
    "require_successful_tools": [["add"], [["add", "note"]], ["broken"]],
    "stop_after_successful_tools": [["note"], ["add"]],
    "turn_policy": [{"require_action_or_yield": True}, {"max_prose_chars": 3}],
    "native_tool_fallback": ["allow_once", "reject"],
    "loop_until_done": [True],
    "max_nudges": [0, 2],
    "done_sentinel": ["##DONE##"],
    "token_budget": [60, 200],
}
REPLIES: list[Any] = [
    "words",
    "the same words",
    "##DONE##",
    call("add", a=1, b=2),
    call("add", a=1, b=2),
    [call("add", a=2, b=2), call("note", text="n")],
    ["and", call("broken")],
    call("nobody_knows"),
    call("add", a="no number"),
    '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 1}}</tool_call>',
    AuthFailed("out of order"),
]
VERDICTS_SAID = ["done", "continue", "pass", "revise", "what?"]

MIXED = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in OPTIONS.items()}
)


async def judged(options: dict[str, Any], replies: list[Any], verdicts: list[str]) -> None:
    left, said = iter(replies), iter(verdicts)

    def answer(request: w.Request) -> Any:
        if is_judged(request):
            return call("give_verdict", verdict=next(said, "done"), reasoning="r", critique="c")
        return next(left, "the end")

    model = scripted(then=answer, usage={"input_tokens": 10, "output_tokens": 5})
    limits = {} if "iteration_budget" in options else {"max_iterations": 8}
    tools = [add, note, broken]
    out = await w.agent_loop("go", model=model, tools=tools, **limits, **options)
    assert out.status in STATUSES, out.status
    assert out.error is None or out.error["category"] != "internal", out.error
    await kept(out, model)


STATUSES = {
    "done",
    "stuck",
    "failed",
    "stopped",
    "budget_exhausted",
    "verify_capped",
    "verify_exhausted",
    "unverified",
    "provider_error",
}


@settings(max_examples=120)
@given(
    options=MIXED,
    replies=st.lists(st.sampled_from(REPLIES), max_size=7),
    verdicts=st.lists(st.sampled_from(VERDICTS_SAID), max_size=8),
)
def test_every_end_of_any_mix_is_a_clean_one(
    options: dict[str, Any], replies: list[Any], verdicts: list[str]
):
    ran(judged(options, replies, verdicts))
