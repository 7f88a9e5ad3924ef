"""The workspace of a session: recorded with it, and used by every run that goes on with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.errors import ConfigError, WorkspaceChanged
from windlass.testing import call, scripted

TOOLS = ["file_read", "file_write"]


def write(name: str, content: str = "made\n") -> w.ToolCall:
    """Build a call that writes a file."""
    return call("file_write", path=name, content=content)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Provide the folder of a project and the current one."""
    project, here = tmp_path / "project", tmp_path / "here"
    project.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    return project, here


async def test_session_that_is_opened_with_a_workspace_has_all_its_runs_in_it(
    folders: tuple[Path, Path],
):
    project, here = folders
    session = await w.agent_session_open("s", workspace=project, mounts={str(here): "read"})
    assert session.workspace_anchor == str(project) and session.mounts == {str(here): "read"}
    model = scripted(write("a.txt"), write(str(here / "b.txt")), "done")
    out = await w.Agent(model, tools=TOOLS).run("go", session_id="s")
    await kept(out, model)
    assert (project / "a.txt").exists() and not (here / "a.txt").exists()
    assert out.tool_calls[1].outcome != "ok" and not (here / "b.txt").exists()  # mounted to read
    loop = scripted(write("c.txt"), "done")
    await w.agent_loop("go", model=loop, tools=TOOLS, session_id="s")
    assert (project / "c.txt").exists()


async def test_run_that_goes_on_elsewhere_uses_the_workspace_it_began_in(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    project, here = folders
    options: dict[str, Any] = {
        "tools": TOOLS,
        "approval_policy": {"rules": [{"ask": "file_write"}]},
    }
    first = w.Agent(scripted(write("a.txt"), "done"), workspace=project, **options)
    held = await first.run("go", session_id="s")
    assert held.status == "suspended"
    monkeypatch.chdir(tmp_path)
    other = w.Agent(scripted("done"), **options)
    done = await other.resume("s", decisions={held.pending[0].id: w.Allow()})
    assert done.status == "done" and (project / "a.txt").read_text() == "made\n"
    assert not (here / "a.txt").exists() and not (tmp_path / "a.txt").exists()
    assert (await w.agent_session_read("s")).workspace_anchor == str(project)
    # And so does the undo of what it did.
    (step,) = await w.undo("s", tools=TOOLS)
    assert step.outcome == "ok" and not (project / "a.txt").exists()


async def test_default_workspace_is_kept_with_the_session(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    project, here = folders
    agent = w.Agent(scripted(write("a.txt"), "done"), tools=TOOLS)
    await agent.run("go", session_id="s")
    assert (here / "a.txt").exists()
    monkeypatch.chdir(project)
    again = w.Agent(scripted(write("b.txt"), "done"), tools=TOOLS)
    await again.run("go", session_id="s")
    assert (here / "b.txt").exists() and not (project / "b.txt").exists()
    # The control: a session of its own begins in the current folder.
    fresh = w.Agent(scripted(write("c.txt"), "done"), tools=TOOLS)
    await fresh.run("go")
    assert (project / "c.txt").exists()


@pytest.mark.parametrize("entry", ["run", "resume", "loop"])
async def test_workspace_that_is_gone_or_differs_is_an_error(
    folders: tuple[Path, Path], entry: str
):
    project, here = folders

    async def go_on(**options: Any) -> None:
        model = scripted("done")
        try:
            if entry == "loop":
                await w.agent_loop("go", model=model, tools=TOOLS, session_id="s", **options)
            elif entry == "run":
                await w.Agent(model, tools=TOOLS, **options).run("go", session_id="s")
            else:
                await w.Agent(model, tools=TOOLS, **options).resume("s")
        finally:
            assert entry == "resume" or bool(model.requests) != is_refused

    await w.Agent(scripted("hello"), tools=TOOLS, workspace=project).run("go", session_id="s")
    is_refused = True
    with pytest.raises(WorkspaceChanged, match="works in '.*project', not in the workspace"):
        await go_on(workspace=here)
    is_refused = False
    await go_on(workspace=project)
    shutil.rmtree(project)
    is_refused = True
    with pytest.raises(WorkspaceChanged, match="there is no folder"):
        await go_on()


async def test_path_scopes_begin_in_the_workspace_of_the_session(folders: tuple[Path, Path]):
    project, here = folders

    @w.tool(side_effect_level="read_only", annotations={"path_args": ["path"]})
    def look(path: str) -> str:
        """Look at a file."""
        return "seen"

    await w.agent_session_open("s", workspace=project)
    model = scripted(call("look", path="a.txt"), call("look", path=str(here / "a.txt")), "done")
    allow = {"look": w.path_scope("path")}
    out = await w.Agent(model, tools=[look], permissions={"allow": allow}).run("go", session_id="s")
    first, second = out.tool_calls
    assert first.result == "seen" and second.outcome == "denied"


async def test_path_scopes_know_the_mounts_of_an_agent_without_a_workspace(
    folders: tuple[Path, Path],
):
    project, here = folders

    @w.tool(side_effect_level="read_only", annotations={"path_args": ["path"]})
    def look(path: str) -> str:
        """Look at a file."""
        return "seen"

    allow = {"look": w.path_scope("path")}
    for mounts, wanted in (({str(project): "read"}, "ok"), ({}, "denied")):
        model = scripted(call("look", path=str(project / "a.txt")), "done")
        agent = w.Agent(model, tools=[look], permissions={"allow": allow}, mounts=mounts)
        assert [one.outcome for one in (await agent.run("go")).tool_calls] == [wanted]


async def test_mounts_of_an_agent_hold_in_the_workspace_of_the_session(folders: tuple[Path, Path]):
    project, here = folders
    (here / "more").mkdir()
    (here / "more" / "a.txt").write_text("mounted")
    await w.agent_session_open("s", workspace=project)
    model = scripted(call("file_read", path=str(here / "more" / "a.txt")), "done")
    mounts = {str(here / "more"): "read"}
    out = await w.Agent(model, tools=TOOLS, mounts=mounts).run("go", session_id="s")
    assert out.tool_calls[0].outcome == "ok" and "mounted" in out.tool_calls[0].result


async def test_session_cannot_be_opened_with_another_workspace(folders: tuple[Path, Path]):
    project, here = folders
    await w.agent_session_open("s", workspace=project)
    assert (await w.agent_session_open("s")).workspace_anchor == str(project)
    with pytest.raises(WorkspaceChanged, match="in the workspace"):
        await w.agent_session_open("s", workspace=here)
    await w.agent_session_open("bare")
    with pytest.raises(WorkspaceChanged, match="without a workspace"):
        await w.agent_session_open("bare", workspace=here)
    with pytest.raises(ConfigError, match="no folder"):
        await w.agent_session_open("t", workspace=project / "no")
    with pytest.raises(ConfigError, match="say workspace="):
        await w.agent_session_open("t", metadata={"workspace_anchor": "/etc"})
    with pytest.raises(ConfigError, match="'read' or 'extend'"):
        await w.agent_session_open("t", workspace=project, mounts={".": "write"})  # pyright: ignore


async def test_changed_options_in_a_run_keep_the_workspace(folders: tuple[Path, Path]):
    project, _here = folders

    def after(turn: Any) -> dict[str, Any]:
        return {"next_options": {"temperature": 0.5}}

    await w.agent_session_open("s", workspace=project)
    model = scripted(write("a.txt"), write("b.txt"), "done")
    await w.agent_loop("go", model=model, tools=TOOLS, session_id="s", post_turn_callback=after)
    assert (project / "a.txt").exists() and (project / "b.txt").exists()


async def test_sub_agent_without_a_workspace_works_in_that_of_its_caller(
    folders: tuple[Path, Path],
):
    project, here = folders
    helper = w.Agent(scripted(write("a.txt"), "done"), tools=TOOLS, name="helper")
    settled = w.Agent(scripted(write("b.txt"), "done"), tools=TOOLS, workspace=here, name="settled")
    model = scripted(call("helper", task="go"), call("settled", task="go"), "done")
    out = await w.Agent(model, tools=[helper.as_tool(), settled.as_tool()], workspace=project).run(
        "go"
    )
    assert out.status == "done"
    assert (project / "a.txt").exists() and (here / "b.txt").exists()
    assert not (here / "a.txt").exists() and not (project / "b.txt").exists()


async def test_preview_of_a_sub_agent_in_another_workspace_changes_nothing(
    folders: tuple[Path, Path],
):
    project, here = folders
    helper = w.Agent(scripted(write("a.txt"), "done"), tools=TOOLS, name="helper")
    model = scripted(call("helper", task="go"), "done")
    agent = w.Agent(model, tools=[helper.as_tool()], workspace=project)
    out = await agent.run("go", dry_run="plan")
    assert out.plan is not None and [one.tool for one in out.plan.effects] == ["file_write"]
    assert not (project / "a.txt").exists() and not (here / "a.txt").exists()


@pytest.mark.parametrize("way", ["options", "handoff"])
async def test_workspace_of_the_session_stays_when_the_plan_changes(way: str, tmp_path: Path):
    place = tmp_path / "place"
    place.mkdir()
    (place / "name.txt").write_text("the session's")
    await w.agent_session_open("opened", workspace=str(place))
    read = w.ToolCall("2", "file_read", {"path": "name.txt"})
    more: dict[str, Any]
    if way == "options":
        model = scripted(w.ToolCall("1", "glob", {"pattern": "*"}), read, "ok")
        more = {"post_turn_callback": lambda turn: {"next_options": {"seed": 4}}}
    else:
        other = w.Agent(scripted(read, "ok"), name="other", tool_preset="readonly")
        model = scripted(w.ToolCall("1", "transfer_to_other", {"reason": "theirs"}))
        more = {"handoffs": [other]}
    agent = w.Agent(model, name="front", tool_preset="readonly", **more)
    out = await agent.run("go", session_id="opened")
    (found,) = [one.result for one in out.tool_calls if one.name == "file_read"]
    assert found is not None and "the session's" in found


async def test_workspace_of_the_caller_is_that_of_an_agent_with_servers(tmp_path: Path):
    (tmp_path / "name.txt").write_text("the caller's")
    server = str(Path(__file__).parents[1] / "mcp_client" / "fake_server.py")
    entry = {"command": sys.executable, "args": ["-I", "-S", server]}
    calls = [w.ToolCall("1", "file_read", {"path": "name.txt"}), w.ToolCall("2", "calc__env", {})]
    inner_model = scripted(*calls, "ok")
    inner = w.Agent(inner_model, name="inner", tool_preset="readonly", mcp_servers={"calc": entry})
    outer = w.Agent(
        scripted(w.ToolCall("3", "inner", {"task": "go"}), "ok"),
        tools=[inner.as_tool()],
        tool_preset="readonly",
        workspace=str(tmp_path),
    )
    out = await outer.run("go", session_id="s")
    told = str(list(inner_model.requests[-1].messages))
    assert out.status == "done", out.error
    assert "the caller's" in told and f'"CWD": "{tmp_path}"' in told
