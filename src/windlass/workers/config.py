"""The configuration of a worker: the dict that `spawn_agent` takes, with every key checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from windlass.agents.artifacts import Artifact
from windlass.conditions.resume import parse_resume_conditions
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject, is_mapping, is_sequence
from windlass.loop.plan import as_journaled
from windlass.options.checks import Check, anything, boolean, no_key, one_of, optional, text, texts
from windlass.options.group import Option, OptionStruct, struct
from windlass.toolbox.options import check_variables
from windlass.workflows.execute import workflow_graph

RESUME_WHEN: Final = "resume_when"
TranscriptMode = Literal["inherit", "fork", "reset", "compact"]
ArtifactMode = Literal["inherit", "none", "reset"]
Cleanup = Literal["preserve", "remove", "remove_if_clean"]
#: Options of a run that belong to `spawn_agent` itself, or to the worker.
_NOT_OPTIONS: Final = (
    "session_id store caller deps run_id take_over messages on_pending on_cancel abort transcript"
).split()


def _check_dict(name: str, value: Any) -> JsonObject:
    given = cast("object", value)
    if not is_mapping(given) or not all([isinstance(key, str) for key in given]):
        raise ConfigError(f"{name} is a dict, not {safe_repr(given)}")
    return dict(given)


class Carry(OptionStruct, frozen=True, kw_only=True):
    """What a worker takes along from one task to the next."""

    transcript_mode: Annotated[
        TranscriptMode, Option(one_of("inherit", "fork", "reset", "compact"))
    ] = "inherit"
    """The conversation: goes on, goes on in a copy, begins anew, or is made shorter first."""
    artifact_mode: Annotated[ArtifactMode, Option(one_of("inherit", "none", "reset"))] = "inherit"
    """Artifacts: all so far, none, or only those that the worker was spawned with."""
    resume_workflow: Annotated[bool, Option(boolean)] = True
    """With a graph: a run that was cut off goes on; False: it begins anew."""


class Worktree(OptionStruct, frozen=True, kw_only=True):
    """A git worktree of its own for a worker."""

    repo: Annotated[str, Option(text)] = "."
    """The repository: a folder in it."""
    branch: Annotated[str | None, Option(optional(text))] = None
    """The branch that is checked out; it is created where there is none. Default: `worker/<id>`."""
    cleanup: Annotated[Cleanup, Option(one_of("preserve", "remove", "remove_if_clean"))] = (
        "preserve"
    )
    """What happens to it when the worker is over."""


class Execution(OptionStruct, frozen=True, kw_only=True):
    """Where a worker works: a folder, variables for its commands, or a git worktree."""

    cwd: Annotated[str | None, Option(optional(text))] = None
    """The workspace folder; with a worktree a folder in it."""
    env: Annotated[Mapping[str, str], Option(check_variables)] = {}
    """Environment variables for its commands, over those that commands have anyway."""
    worktree: Annotated[Worktree | None, Option(struct(Worktree, flag=False))] = None
    """The git worktree that is made for it."""


class OutputContract(OptionStruct, frozen=True, kw_only=True):
    """What the parent expects of a worker."""

    output_kinds: Annotated[tuple[str, ...], Option(texts)] = ()
    """Kinds of artifacts. Where the first is missing, the final text becomes it."""


class Node(OptionStruct, frozen=True, kw_only=True):
    """One delegated stage."""

    kind: Annotated[str, Option(one_of("stage", "verify", "subagent"))] = "subagent"
    """`verify` answers with a verdict: `{"pass": …, "reason": …}`."""
    mode: Annotated[str, Option(one_of("agent", "llm"))] = "agent"
    """`agent`: a loop. `llm`: one model call, where it has no tools."""
    model_policy: Annotated[JsonObject, Option(_check_dict)] = {}
    """Options of its model: provider, model, temperature, …"""
    output_contract: Annotated[OutputContract, Option(struct(OutputContract, flag=False))] = (
        OutputContract()
    )
    """What the parent expects."""
    tools: Annotated[Any, Option(anything)] = None
    """Its tools; those of the parent where none are given."""
    system: Annotated[str | None, Option(optional(text))] = None
    """Its system prompt."""


class WorkerConfig(OptionStruct, frozen=True, kw_only=True):
    """The checked dict of `spawn_agent`."""

    task: str
    name: str | None = None
    node: Node = Node()
    graph: Any = None
    artifacts: tuple[JsonObject, ...] = ()
    options: JsonObject = {}
    resume_when: JsonObject | None = None  # of the options
    transcript: JsonObject | None = None
    policy: Any = None
    tools: tuple[str, ...] | None = None
    carry: Carry | None = None
    execution: Execution = Execution()
    approval_policy: Any = None
    permissions: Any = None

    @property
    def carried(self) -> Carry:
        """What is carried from task to task."""
        return self.carry or Carry()


def check_task(task: object) -> str:
    """Check the text of a task."""
    if not isinstance(task, str) or not task.strip():
        raise ConfigError(f"a task is a text that is not blank, not {safe_repr(task)}")
    return task


def _check_artifacts(name: str, value: Any) -> tuple[JsonObject, ...]:
    if not is_sequence(cast("object", value)):
        raise ConfigError(f"{name} is a list of artifacts, not {safe_repr(value)}")
    return tuple([_check_artifact(f"{name}[{at}]", one) for at, one in enumerate(value)])


def _check_artifact(name: str, value: object) -> JsonObject:
    if isinstance(value, Artifact):
        value = msgspec.to_builtins(value)
    if not is_mapping(value):
        raise ConfigError(f"{name} is an Artifact or a dict, not {safe_repr(value)}")
    known = Artifact.__struct_fields__
    for key in value:
        if key not in known:
            raise no_key(name, key, known)
    title, words = value.get("title"), value.get("text")
    if not isinstance(title, str) or not title.strip():
        raise ConfigError(f"{name} has no title")
    if words is not None and not isinstance(words, str):
        raise ConfigError(f"{name}.text is a text, not {safe_repr(words)}")
    if (words is None) is (value.get("data") is None):
        raise ConfigError(f"{name} has either text or data")
    kept: JsonObject = {"kind": str(value.get("kind") or "note"), "title": title}
    if words is not None:
        return {**kept, "text": words}
    return {**kept, "data": as_journaled(value["data"], f"{name}.data")}


def check_options(name: str, value: Any) -> JsonObject:
    """Check that options of a loop leave out what a worker decides itself."""
    given = _check_dict(name, value)
    for key in _NOT_OPTIONS:
        if key in given:
            raise ConfigError(
                f"{name}.{key} is not for a worker: {_INSTEAD.get(key, 'leave it out')}"
            )
    return given


_INSTEAD: Final = {
    "store": "spawn_agent(…, store=…) names the store",
    "caller": "spawn_agent(…, caller=…) says in whose name it works",
    "deps": "give spawn_agent(…, deps=…)",
    "transcript": "give the key transcript beside node",
    "session_id": "a worker has a session of its own, named by its id",
    "abort": "close_agent and agent_stop end it",
}

_CHECKS: Final[dict[str, Check]] = {
    "name": optional(text),
    "task": lambda _name, value: check_task(value),
    "node": struct(Node, flag=False),
    "graph": lambda _name, value: workflow_graph(value),
    "artifacts": _check_artifacts,
    "options": check_options,
    "transcript": _check_dict,
    "policy": anything,
    "tools": optional(texts),
    "carry": struct(Carry, flag=False),
    "execution": struct(Execution, flag=False),
    "approval_policy": anything,
    "permissions": anything,
}


def parse_config(config: object) -> WorkerConfig:
    """Check the dict of `spawn_agent`; an unknown key is an error that names the nearest one."""
    if not is_mapping(config):
        raise ConfigError(f"spawn_agent takes a dict, not {safe_repr(config)}")
    given: JsonObject = {}
    for key, value in config.items():
        if key not in _CHECKS:
            raise no_key("spawn_agent", key, _CHECKS)
        if value is not None:
            given[key] = _CHECKS[key](key, value)
    if "task" not in given:
        raise ConfigError("a worker needs a task: spawn_agent({'task': …, 'node': {…}})")
    if ("node" in given) is ("graph" in given):
        raise ConfigError("a worker needs a node or a graph: spawn_agent({'task': …, 'node': {…}})")
    if "graph" in given and "transcript" in given:
        raise ConfigError("transcript goes with a node: a graph has none of its own")
    carry = given.get("carry")
    if carry is not None and not carry.resume_workflow and "graph" not in given:
        raise ConfigError("carry.resume_workflow goes with a graph: a node has no workflow")
    if RESUME_WHEN in given.get("options", {}):
        options = dict(given["options"])
        conditions = parse_resume_conditions(options.pop(RESUME_WHEN), path="options.resume_when")
        told = None if conditions is None else conditions.to_dict()
        given |= {"options": options, RESUME_WHEN: told}
    return WorkerConfig(**given)


def build_options(config: WorkerConfig) -> JsonObject:
    """Return the options of `agent_loop` that the configuration stands for, without the tools."""
    node, typed = config.node, dict(config.options)
    own: list[tuple[str, JsonObject]] = [
        ("node.model_policy", node.model_policy),
        ("node", {} if node.system is None else {"system": node.system}),
        ("spawn_agent", _rules_of(config)),
        ("execution", _place_of(config, typed)),
    ]
    for where, values in own:
        for name, value in values.items():
            if name in typed and name != "sandbox":
                raise ConfigError(f"{name} is given twice: in options, and in {where}")
            typed[name] = value
    if node.kind == "verify" and "schema" not in typed:
        typed["schema"] = VERDICT
    return typed


#: The answer of a node that verifies.
VERDICT: Final[JsonObject] = {
    "type": "object",
    "properties": {"pass": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["pass", "reason"],
    "additionalProperties": False,
}


def _rules_of(config: WorkerConfig) -> JsonObject:
    rules = {name: getattr(config, name) for name in ("policy", "approval_policy", "permissions")}
    return {name: value for name, value in rules.items() if value is not None}


def _place_of(config: WorkerConfig, typed: JsonObject) -> JsonObject:
    place, execution = dict[str, Any](), config.execution
    if execution.cwd is not None and execution.worktree is None:
        place["workspace"] = os.path.abspath(os.path.expanduser(execution.cwd))
    if execution.env:
        given = typed.get("sandbox")
        sandbox: JsonObject = {"level": given} if isinstance(given, str) else {}
        if isinstance(given, msgspec.Struct):
            sandbox = msgspec.to_builtins(given)
        elif is_mapping(given):
            sandbox = dict(given)
        place["sandbox"] = {**sandbox, "variables": dict(execution.env)}
    return place


def build_prompt(task: str, artifacts: Sequence[JsonObject], kinds: Sequence[str] = ()) -> str:
    """Write the message that a worker begins with: its task, and the artifacts given to it."""
    parts = [task]
    for one in artifacts:
        body = one["text"] if "text" in one else msgspec.json.encode(one["data"]).decode()
        parts.append(f'<artifact kind="{one["kind"]}" title="{one["title"]}">\n{body}\n</artifact>')
    if len(kinds) > 1:
        parts.append(
            f"Your final text is taken as your {kinds[0]}. Keep an artifact of each of these kinds "
            f"with the tool artifact_write: {', '.join(kinds[1:])}."
        )
    return "\n\n".join(parts)
