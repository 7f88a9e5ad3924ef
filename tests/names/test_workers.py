"""The walk over every name of workers and fleets: it is there, typed, documented, and does something."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import windlass as w
from tests.names import workers
from windlass import errors
from windlass.cli.main import cli
from windlass.options.index import NAMES
from windlass.testing import scripted

GUIDES = Path(__file__).parents[2] / "docs/guides"
PAGES = "\n".join(
    GUIDES.joinpath(f"{name}.md").read_text()
    for name in "workers suspending triggers daemons workflows fleets operating-a-fleet".split()
)


def build_config(**changes: Any) -> dict[str, Any]:
    node = {"model_policy": {"model": scripted("done")}, **changes.pop("node", {})}
    return {"task": "Work.", "node": node, **changes}


@pytest.mark.parametrize("name", workers.FUNCTIONS)
def test_function_takes_its_arguments_and_is_on_a_page(name: str):
    function = getattr(w, name)
    given = list(inspect.signature(function).parameters)
    wanted = workers.FUNCTIONS[name].split()
    assert given[: len(wanted)] == wanted
    assert len(inspect.getdoc(function) or "") > 20 and name in PAGES


@pytest.mark.parametrize("name", workers.CLASSES)
def test_class_has_its_parts(name: str):
    kind = getattr(w, name)
    known = set(dir(kind)) | set(getattr(kind, "__annotations__", {}))
    assert set(workers.CLASSES[name].split()) <= known
    assert len(inspect.getdoc(kind) or "") > 10


@pytest.mark.parametrize("name", workers.ERRORS)
def test_error_has_its_place(name: str):
    kind = getattr(w, name)
    assert kind is getattr(errors, name, kind)
    assert issubclass(kind, getattr(w, workers.ERRORS[name]))
    assert len(inspect.getdoc(kind) or "") > 10


async def test_config_of_a_worker_has_its_keys_and_no_others(tmp_path: Path):
    artifacts = [{"title": "note", "text": "Read this."}]
    values: dict[str, Any] = {
        "name": "one",
        "artifacts": artifacts,
        "options": {"max_iterations": 3, "resume_when": {"timeout": "1h"}},
        "transcript": {"messages": [{"role": "user", "content": "Hello."}]},
        "tools": [],
        "approval_policy": None,
        "permissions": None,
        "policy": None,
        "carry": {"transcript_mode": "inherit"},
        "execution": {"cwd": str(tmp_path), "env": {"MODE": "test"}},
    }
    assert set(values) | {"task", "node", "graph"} == set(workers.CONFIG)
    for key, value in values.items():
        worker = await w.spawn_agent(build_config(**{key: value}))
        assert (await w.wait_agent(worker)).status in ("completed", "awaiting"), key
        with pytest.raises(w.ConfigError, match=f"did you mean {key!r}"):
            await w.spawn_agent(build_config(**{f"{key}x": value}))


async def test_every_value_of_a_node_and_of_carry_is_taken():
    for kind in workers.NODE_KINDS:
        for mode in workers.NODE_MODES:
            answer = '{"pass": true, "reason": "x"}'
            node = {"kind": kind, "mode": mode, "model_policy": {"model": scripted(answer)}}
            worker = await w.spawn_agent(build_config(node=node))
            assert (await w.wait_agent(worker)).status == "completed", (kind, mode)
    for key, values in workers.CARRY.items():
        for value in values:
            config = build_config(carry={key: value})
            if key == "resume_workflow":
                nodes = {"a": {"mode": "llm", "model": scripted("done")}}
                config = {"task": "Work.", "graph": {"nodes": nodes}, "carry": {key: value}}
            worker = await w.spawn_agent(config)
            done = await w.wait_agent(worker)
            assert (done.status, done.carry[key]) == ("awaiting", value)
        with pytest.raises(w.ConfigError, match=key):
            await w.spawn_agent(build_config(carry={key: "x"}))


@pytest.mark.parametrize("group", ["NODE", "EXECUTION", "WORKTREE"])
async def test_keys_of_the_dicts_in_it_are_told(group: str):
    for key in getattr(workers, group):
        wrong = {f"{key}x": "x"}
        changes: dict[str, Any] = {"node": wrong}
        if group == "EXECUTION":
            changes = {"execution": wrong}
        elif group == "WORKTREE":
            changes = {"execution": {"worktree": wrong}}
        with pytest.raises(w.ConfigError, match=f"did you mean {key!r}"):
            await w.spawn_agent(build_config(**changes))


async def test_result_of_a_daemon_has_its_fields():
    result = await w.agent_loop("Look.", model=scripted("Seen."), daemon=True)
    assert (result.status, result.daemon_state, result.daemon_snapshot_path) == (
        "idle",
        "idle",
        None,
    )


@pytest.mark.parametrize("name", workers.DAEMON_OPTIONS)
def test_option_of_daemons_is_there_and_on_the_page(name: str):
    assert name in NAMES["loop"] and f"`{name}`" in PAGES


async def test_tools_for_the_model_have_their_parameters():
    tools = w.agent_lifecycle_tools(None, {"subagents": True})
    found = {tool.name: list(tool.spec.parameters["properties"]) for tool in tools}
    assert found == {name: words.split() for name, words in workers.TOOLS.items()}


@pytest.mark.parametrize("command", workers.COMMANDS)
def test_command_explains_itself(command: str):
    out = CliRunner().invoke(cli, [*command.split(), "--help"])
    assert out.exit_code == 0 and len(out.output) > 100
