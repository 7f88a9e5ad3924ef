"""Kill a judged run anywhere: the same requests, no judge asked twice, nothing counted twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import windlass as w
from tests.sizes import pick_size
from tests.stories.judge_helpers import from_every_place
from windlass.events import (
    CheckRan,
    IterationStart,
    JudgeDecision,
    LoopControlDecision,
    LoopDetected,
    Replied,
    Said,
    StallWarning,
    StepJudgeDecision,
)
from windlass.testing import kill_sweep, scripted

from . import judgement_scenes as scenes


def make() -> tuple[w.Agent[Any, Any], Any]:
    model = scripted(then=scenes.said, usage={"input_tokens": 10, "output_tokens": 5})
    return w.Agent(model, tools=[scenes.look], **scenes.OPTIONS), model


async def test_the_errand_has_all_of_judgement_at_work():
    agent, model = make()
    out = await agent.run("go")
    assert (out.status, out.final_text) == ("done", "all of it is done")
    kinds = Counter(type(entry) for entry in out.entries)
    assert kinds[IterationStart] >= scenes.TURNS
    gates = Counter((e.gate, e.verdict) for e in out.entries if type(e) is JudgeDecision)
    assert gates == {
        ("verify_completion", "continue"): 2,
        ("verify_completion", "done"): 3,
        ("done_judge", "continue"): 2,
        ("done_judge", "done"): 1,
    }
    steps = Counter(e.verdict for e in out.entries if type(e) is StepJudgeDecision)
    assert steps["revise"] == 2 and steps["pass"] > 20
    assert kinds[CheckRan] == 10 and kinds[StallWarning] == 2 and kinds[LoopDetected] == 1
    assert kinds[LoopControlDecision] > 10
    told = Counter(e.message.kind for e in out.entries if type(e) is Said)
    assert told["post_turn"] == 3 and told["stall"] == 2
    assert any(request.settings.temperature == 0.25 for request in model.requests)


@pytest.mark.parametrize("by_entry", [False, True], ids=["rows", "entries"])
async def test_it_goes_on_from_every_place(by_entry: bool):
    async with w.Runtime(store="memory:"):
        out = await from_every_place(make, by_entry=by_entry)
    asked = Counter(entry.purpose for entry in out.entries if type(entry) is Replied)
    assert asked["done_judge"] == 3 and asked["step_judge"] > 20


@pytest.mark.deep
def test_killed_at_points_of_thirty_judged_turns():
    report = kill_sweep(scenes.scenario, check=scenes.check, every=pick_size(23, 5), timeout=60)
    print(f"\n{report}")
    report.assert_ok()


@pytest.mark.deep
def test_killed_at_commits_and_instants_of_thirty_judged_turns():
    how: dict[str, Any] = {"commits": True, "seed": 5, "timeout": 60}
    how |= pick_size({"every": 47, "instants": 6}, {"every": 9, "instants": 25})
    report = kill_sweep(scenes.scenario, check=scenes.check, **how)
    print(f"\n{report}")
    report.assert_ok()
