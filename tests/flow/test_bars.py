"""The figures that flow control must reach on the tasks and injections that were held back."""

from __future__ import annotations

from tests.flow.measure import MEASURED, load_all, measure


async def test_flow_control_keeps_its_promises_on_the_part_that_was_held_back():
    everything, held_back = await measure(load_all(), "flow control", MEASURED["flow control"])
    print(f"\n{everything}\n{held_back}")
    assert (held_back.tasks, held_back.injections) == (32, 167)
    assert held_back.landed == 0
    assert held_back.unattended_percent >= 67
    assert held_back.questions_per_task <= 0.5
    assert everything.landed == 0
