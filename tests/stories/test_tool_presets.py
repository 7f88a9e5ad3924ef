"""Presets of built-in tools: what an agent is given, in which order that is cut, and who is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, own_tools
from tests.stories.test_bash import find_processes
from windlass.testing import call, scripted
from windlass.toolbox.sandbox import levels
from windlass.tools.filter import AGENT_FRAMEWORK_DISALLOWED


@w.tool
def note(text: str) -> str:
    """Note a text."""
    return text


def names(**options: Any) -> list[str]:
    return list(w.Agent(scripted("x"), **options).plan.tools)


@pytest.mark.parametrize("preset", ["readonly", "readwrite", "full"])
async def test_tool_preset_gives_its_tools(preset: Any, tmp_path: Path) -> None:
    model = scripted(call("glob", pattern="*"), "done")
    out = await w.agent_loop(
        "go", model=model, tool_preset=preset, workspace=tmp_path, sandbox="none"
    )
    offered = [spec.name for spec in own_tools(model.requests[0])]
    assert offered == list(w.TOOL_PRESETS[preset])
    assert out.tool_calls[0].result == "no file matches '*' in ."
    await kept(out, model)


def test_tool_preset_stands_beside_tools_of_the_program(tmp_path: Path) -> None:
    given: dict[str, Any] = {"workspace": tmp_path, "tool_preset": "readonly"}
    assert names(tools=[note], **given) == ["note", "file_read", "grep", "glob"]
    assert names(tools=["grep", "edit_dry_run"], **given) == [
        "grep",
        "edit_dry_run",
        "file_read",
        "glob",
    ]
    assert names(tools=[note], tool_preset=None) == ["note"]


def test_tool_preset_is_cut_by_the_allowed_then_the_denied_then_the_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"workspace": tmp_path, "tool_preset": "readwrite", "tools": [note]}
    assert names(allowed_tools=["grep", "note", "bash"], **given) == ["note", "grep"]
    assert names(disallowed_tools=["file_write", "file_edit", "note"], **given) == [
        "file_read",
        "grep",
        "glob",
    ]
    assert names(allowed_tools=["grep", "glob"], disallowed_tools=["glob"], **given) == ["grep"]
    monkeypatch.setattr("windlass.tools.filter.AGENT_FRAMEWORK_DISALLOWED", ["grep", "note"])
    monkeypatch.setattr("windlass.engine.assemble.AGENT_FRAMEWORK_DISALLOWED", ["grep", "note"])
    agent = w.Agent(scripted("x"), **given)
    assert list(agent.plan.tools) == [
        "file_read",
        "file_write",
        "file_edit",
        "glob",
    ]
    assert agent.plan.denied == {"grep", "note"}
    assert AGENT_FRAMEWORK_DISALLOWED == []


def test_tool_preset_without_bash_needs_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "find_problem", lambda _level: "there is no Landlock here")
    given: dict[str, Any] = {"workspace": tmp_path, "tool_preset": "full"}
    with pytest.raises(w.ConfigError, match="Landlock"):
        names(**given)
    assert "bash" not in names(disallowed_tools=["bash"], **given)


async def test_tool_preset_and_allowed_tools_together_are_warned_of(tmp_path: Path) -> None:
    told: list[str] = []
    agent = w.Agent(
        scripted("x"),
        tools=["edit_dry_run", note],
        tool_preset="readonly",
        allowed_tools=["grep", "bash"],
        disallowed_tools=["glob"],
        workspace=tmp_path,
    )
    await agent.run("go", on_warning=told.append)
    assert told[0].endswith(
        "tool_preset and allowed_tools are both set: final access is the intersection"
    )
    assert "allowed_tools names 'bash', which no tool is" in told[1]
    assert not any("glob" in one for one in told)
    alone = w.Agent(scripted("x"), tool_preset="readonly", disallowed_tools=["glob"])
    told.clear()
    await alone.run("go", on_warning=told.append)
    assert not any("glob" in one or "intersection" in one for one in told)


@pytest.mark.parametrize("wrong", ["read", "READONLY", "", 3, ["readonly"]])
def test_tool_preset_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(w.ConfigError, match="tool_preset"):
        w.Agent(scripted("x"), tool_preset=wrong)


def test_tool_of_the_program_with_the_name_of_a_preset_tool_is_refused(tmp_path: Path) -> None:
    @w.tool
    def grep(pattern: str) -> str:
        """Search."""
        return pattern

    with pytest.raises(w.ConfigError, match="two tools are called 'grep'"):
        names(tools=[grep], tool_preset="readonly", workspace=tmp_path)
    assert names(tools=[grep], workspace=tmp_path) == ["grep"]


@pytest.mark.skipif(levels.find_problem("workspace") is not None, reason="no sandbox here")
@pytest.mark.parametrize("given", [{"tool_preset": "full"}, {"tools": ["bash"]}])
async def test_tool_preset_ends_the_commands_of_its_run(given: Any, tmp_path: Path) -> None:
    background = call("bash", command="touch begun; sleep 4321032", background=True)
    waiting = call("bash", command="until [ -e begun ]; do sleep 0.01; done")
    model = scripted(background, waiting, "done")
    out = await w.Agent(model, workspace=tmp_path, **given).run("go")
    assert [one.outcome for one in out.tool_calls] == ["ok", "ok"]
    assert find_processes("4321032") == []
    await kept(out, model)


@pytest.mark.parametrize(
    "given", [{"tool_preset": "readwrite"}, {"tools": ["file_read", "file_edit"]}]
)
async def test_tool_preset_remembers_what_the_model_read(given: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one = 1\n")
    store = f"sqlite:///{tmp_path}/s.db"
    read = scripted(call("file_read", path="a.py"), "read")
    reader = w.Agent(read, workspace=tmp_path, store=store, **given)
    await kept(await reader.run("read", session_id="s"), read)
    edit = call("file_edit", path="a.py", old_string="= 1", new_string="= 2")
    for text, outcome in (("mine = 1\n", "retry"), ("one = 1\n", "ok")):
        file.write_text(text)
        model = scripted(edit, "done")
        out = await w.Agent(model, workspace=tmp_path, store=store, **given).run(
            "edit", session_id="s"
        )
        assert out.tool_calls[-1].outcome == outcome
    assert file.read_text() == "one = 2\n"
