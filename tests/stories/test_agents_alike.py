"""Agents that are made again and again with the same options share a plan, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.events import RunStarted
from windlass.testing import call, scripted


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(*replies: Any, **options: Any) -> tuple[w.Agent[Any, str], Any]:
    model = scripted(*replies)
    tools, system = options.pop("tools", [add]), options.pop("system", "Add.")
    return w.Agent(model, tools=tools, system=system, **options), model


async def test_agents_alike_ask_each_its_own_model():
    made = [agent(call("add", a=n, b=1), f"{n}") for n in range(3)]
    outs = [await one.run("go") for one, _ in made]
    assert [out.output for out in outs] == ["0", "1", "2"]
    assert [len(model.requests) for _, model in made] == [2, 2, 2]
    for out, (one, model) in zip(outs, made, strict=True):
        assert one.plan.policies is made[0][0].plan.policies
        await kept(out, model)


@pytest.mark.parametrize(
    ("field", "options", "others"),
    [
        ("limits.iterations", {"max_turns": 2}, {"max_turns": 3}),
        ("tool_timeout", {"tool_timeout": 5}, {"tool_timeout": 5.0}),
        ("frame.system", {"system": "One."}, {"system": "Two."}),
        ("frame.tools", {"tools": [add]}, {"tools": []}),
        ("name", {"name": "ann"}, {"name": "ben"}),
        ("frame.settings.temperature", {"temperature": 0}, {"temperature": 1}),
        ("policies", {"tool_result_max_bytes": 300}, {"tool_result_max_bytes": 400}),
    ],
)
async def test_agents_alike_but_for_one_option_have_plans_of_their_own(
    field: str, options: dict[str, Any], others: dict[str, Any]
):
    found: list[Any] = []
    for chosen in (options, others, options):
        value: Any = agent("ok", **chosen)[0].plan
        for step in field.split("."):
            value = getattr(value, step)
        found.append((type(value), value))
    assert found[0] != found[1]
    assert found[0] == found[2]


async def test_agents_alike_differ_where_a_list_of_tools_was_changed():
    tools: list[Any] = [add]
    first = w.Agent(scripted("ok"), tools=tools).plan
    tools.clear()
    assert list(first.tools) == ["add"]
    assert not w.Agent(scripted("ok"), tools=tools).plan.tools


async def test_agents_alike_see_annotations_that_a_program_has_changed():
    @w.tool
    async def look() -> str:
        """Look."""
        return "seen"

    @w.tool
    async def send(text: str) -> str:
        """Send."""
        return "sent"

    plain = w.Agent(scripted("ok"), tools=[look, send]).plan
    look.annotations = {"reads_untrusted": True}
    later = w.Agent(scripted("ok"), tools=[look, send]).plan
    assert {policy.name for policy in later.policies} > {policy.name for policy in plain.policies}
    assert "taint" in {policy.name for policy in later.policies}


async def test_agents_alike_record_their_own_names_and_callers():
    one, model = agent("ok", name="ann")
    other, _ = agent("ok", name="ann", on_event=lambda _event: None)
    outs = [await one.run("go", caller=w.Caller("u1")), await other.run("go")]
    begun = [entry for out in outs for entry in out.entries if type(entry) is RunStarted]
    assert [(entry.name, entry.user) for entry in begun] == [("ann", "u1"), ("ann", None)]
    await kept(outs[0], model)
