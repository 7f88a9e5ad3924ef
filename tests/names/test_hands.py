"""The walk over the names of the area *Hands*: built-in tools, their parameters, and the presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.names import hands
from windlass.testing import scripted
from windlass.toolbox.names import BUILTIN_NAMES


def plan_tools(folder: Path, **options: Any) -> dict[str, Any]:
    agent = w.Agent(scripted("x"), workspace=folder, sandbox="none", **options)
    return {name: tool.spec for name, tool in agent.plan.tools.items()}


@pytest.mark.parametrize("name", hands.TOOLS)
def test_a_built_in_tool_has_its_parameters(name: str, tmp_path: Path) -> None:
    (spec,) = plan_tools(tmp_path, tools=[name]).values()
    schema = spec.parameters
    shown = [
        f"{key}={value['default']!r}" if "default" in value else key
        for key, value in schema["properties"].items()
    ]
    assert ", ".join(shown) == hands.TOOLS[name]
    assert schema["required"] == [one for one in hands.TOOLS[name].split(", ") if "=" not in one]


@pytest.mark.parametrize("name", hands.PRESETS)
def test_a_preset_has_its_tools(name: Any, tmp_path: Path) -> None:
    wanted = hands.PRESETS[name].split()
    assert list(w.TOOL_PRESETS[name]) == wanted
    assert list(plan_tools(tmp_path, tool_preset=name)) == wanted


def test_every_built_in_tool_is_in_a_preset_or_given_by_name() -> None:
    assert w.TOOL_PRESETS.keys() == hands.PRESETS.keys()
    inside = {name for names in w.TOOL_PRESETS.values() for name in names}
    assert inside == hands.TOOLS.keys() and inside.isdisjoint(hands.IN_NO_PRESET)
    assert inside.union(hands.IN_NO_PRESET) == BUILTIN_NAMES


def test_no_tool_is_denied_to_every_agent() -> None:
    assert w.AGENT_FRAMEWORK_DISALLOWED == []
