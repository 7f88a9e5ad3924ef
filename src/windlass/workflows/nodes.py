"""One node of a graph: its prompt, the session that works for it, and what comes of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.agents.artifacts import Artifact, build_artifact_tool, read_artifacts
from windlass.agents.subagent import ChildAgent
from windlass.engine.assemble import assemble, parse_loop_options, resolve_names
from windlass.engine.continuation import read_transcript
from windlass.engine.environment import current_environment
from windlass.engine.model import CONNECTION
from windlass.engine.results import AgentResult
from windlass.engine.tool_options import ToolOptions
from windlass.engine.transcript import transcript_of
from windlass.errors import ConfigError
from windlass.events import ToolResulted
from windlass.json_types import JsonObject, as_object
from windlass.llm.transcript_compaction import transcript_compact
from windlass.loop.plan import Plan
from windlass.messages import Message, Text
from windlass.store.base import Store
from windlass.store.view import messages_of
from windlass.tools.arguments.validate import Checker
from windlass.tools.function import as_tools
from windlass.tools.render import stand_in, to_text
from windlass.workflows.command import build_command_model, build_command_tool
from windlass.workflows.graph import VERDICTS, Node
from windlass.workflows.host import StepHost
from windlass.workflows.steps import WorkflowStep, add_result

FORKED_FROM: Final = "parent_transcript_id"
VERDICT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["pass", "fail"]},
        "reason": {"type": "string", "description": "Why, in a sentence or two."},
    },
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}
_JUDGE: Final = (
    "Decide whether the work passes. Answer with a verdict, pass or fail, and the reason."
)


class NodeAgent:
    """A node as the driver of sub-agents sees an agent."""

    def __init__(self, node: Node, options: JsonObject, forked_from: str | None = None) -> None:
        typed = dict(options)
        self._system = typed.pop("system", None)
        self.options = parse_loop_options(typed, f"node {node.id!r}")
        self._forked_from = forked_from

    async def plan_for(
        self,
        deps: Any,
        caller: Caller | None,
        session_id: str | None,
        going_on: Store | None = None,
    ) -> Plan:
        """Return the plan of the node's run."""
        plan = self.build_plan()
        if self._forked_from is not None:
            plan = plan.of(plan.model)
            plan.metadata = {**(plan.metadata or {}), FORKED_FROM: self._forked_from}
        return plan

    def build_plan(self) -> Plan:
        """Build the plan in the current environment; `ConfigError` for options that do not fit."""
        return assemble(
            current_environment().with_defaults(self.options), self._system, "agent_loop"
        )


class NodeContext(msgspec.Struct, frozen=True):
    """What a node is given: the workflow's task, the steps before it, and their artifacts."""

    task: str
    before: Sequence[WorkflowStep]
    """The steps that it follows."""
    earlier: Sequence[WorkflowStep]
    """Those, and all before them."""
    artifacts: Sequence[Artifact]
    error: str | None = None
    """Of the attempt before this one."""


# --------------------------------------------------------------------------- the agent of a node


def build_agent(node: Node, defaults: Mapping[str, Any], forked: str | None = None) -> ChildAgent:
    """Build what works for a node; `ConfigError` for options that do not fit together."""
    if node.agent is not None:
        return node.agent
    if not _MODEL.isdisjoint(node.options):  # a model of its own, with its own connection
        defaults = {n: one for n, one in defaults.items() if n not in _MODEL.union(CONNECTION)}
    options: JsonObject = {**defaults, **node.options, "name": node.id}
    if node.kind == "verify" and node.command is not None:
        options = {name: one for name, one in options.items() if name in _OF_COMMANDS}
        options["model"] = build_command_model(node.command)
        options["tools"] = [build_command_tool(options, node.command, node.seconds)]
        options["name"] = node.id
        return NodeAgent(node, options)
    if node.mode == "llm" or node.judge is not None:
        # Without tools the first reply ends it; a limit of one turn would count a call that was lost.
        options = {name: one for name, one in options.items() if name != "tools"}
        options.setdefault("await_resumption", False)  # it is asked once
    elif node.kind != "verify":
        tools = as_tools(resolve_names(ToolOptions.read(options).tools, options))
        kept = [tool for tool in tools if tool.name != ARTIFACT_TOOL]
        options["tools"] = (*kept, build_artifact_tool())
    if node.kind == "verify":
        options["schema"] = VERDICT
    return NodeAgent(node, options, forked)


_MODEL: Final = frozenset(("model", "provider"))
_OF_COMMANDS: Final = frozenset(("workspace", "mounts", "sandbox", "permissions", "policy")) | {
    "approval_policy"
}


def check_agent(node: Node, defaults: Mapping[str, Any]) -> None:
    """Refuse a node whose options do not fit together, before anything runs."""
    if node.kind == "verify" and node.schema is not None:
        Checker(node.schema, f"node {node.id!r}")
        return
    agent = build_agent(node, defaults)
    if isinstance(agent, NodeAgent):
        agent.build_plan()
    elif isinstance(agent, Agent):
        _ = agent.plan


# --------------------------------------------------------------------------- what it reads


async def build_task(
    node: Node, context: NodeContext, host: StepHost
) -> tuple[tuple[Message, ...], str | None]:
    """Build the messages that a node begins with, and the session that they were taken from."""
    source = next((step for step in reversed(context.before) if step.session_id), None)
    history: tuple[Message, ...] = ()
    if node.transcript != "reset" and source is not None:
        history = await _read_history(node, source, host.run.store)
    inherited = source.name if history and source is not None else None
    prompt = Message("user", (Text(_write_prompt(node, context, inherited)),))
    forked = source.session_id if history and source is not None else None
    return (*history, prompt), forked if node.transcript == "fork" else None


async def _read_history(node: Node, source: WorkflowStep, store: Store) -> tuple[Message, ...]:
    entries = await store.read(source.session_id)
    if node.transcript != "compact":
        return tuple(messages_of(entries))
    compacted = await transcript_compact(transcript_of(entries))
    return read_transcript(compacted)[0]


def _write_prompt(node: Node, context: NodeContext, inherited: str | None) -> str:
    parts: list[str] = []
    own = node.task or node.judge
    if own is None or own == context.task:
        parts.append(context.task)
    else:
        if node.context.task:
            parts.append(f"The task as a whole: {context.task}")
        parts.append(own)
    if node.kind == "verify":
        parts.append(_JUDGE)
    room = node.context.max_chars
    for title, text in (*_list_outputs(node, context, inherited), *_list_artifacts(node, context)):
        kept = text if len(text) <= room else f"{text[:room]}\n[… {len(text) - room} more]"
        room = max(0, room - len(kept))
        parts.append(f"## {title}\n{kept}")
    if context.error is not None:
        parts.append(f"The attempt before this one failed:\n{context.error}")
    return "\n\n".join(parts)


def _list_outputs(
    node: Node, context: NodeContext, inherited: str | None
) -> Iterable[tuple[str, str]]:
    wanted = node.context.outputs
    if wanted == "none":
        return
    steps = context.before if wanted == "previous" else context.earlier
    last = {step.name: step for step in steps}
    for name, step in last.items():
        if not isinstance(wanted, str) and name not in wanted:
            continue
        if name == inherited:
            continue  # it is in the conversation already
        text = step.text if step.data is None else to_text(step.data)
        if step.verdict is not None:
            text = f"{step.verdict}: {step.reason or text}"
        if text:
            yield f"Result of {name}", text


def _list_artifacts(node: Node, context: NodeContext) -> Iterable[tuple[str, str]]:
    for artifact in _choose(node.artifacts_in, context.artifacts):
        text = artifact.text if artifact.text is not None else to_text(artifact.data)
        yield f"{artifact.title} ({artifact.kind})", text


def _choose(wanted: str | tuple[str, ...], artifacts: Iterable[Artifact]) -> list[Artifact]:
    if wanted == "none":
        return []
    return [one for one in artifacts if wanted == "all" or one.kind in wanted]


# --------------------------------------------------------------------------- what comes of it


async def run_node(
    node: Node, step: WorkflowStep, context: NodeContext, host: StepHost
) -> WorkflowStep | None:
    """Run a node, or go on with it; return the step with its end, or None while it is parked."""
    if node.kind == "verify" and node.schema is not None:
        return _verify_schema(node, step, context)
    try:
        messages, forked = await build_task(node, context, host)
        agent = build_agent(node, host.arguments.defaults, forked)
        result = await host.run_session(step, agent, messages)
    except ConfigError as error:  # what could be checked before was: a key that is gone, a folder
        return fail(step, "config", str(error))
    return None if result is None else read_result(node, step, result)


def read_result(node: Node, step: WorkflowStep, result: AgentResult[Any]) -> WorkflowStep:
    """Read the end of a step from the result of its session."""
    ended = add_result(step, result)
    if result.status not in ("done", "idle"):
        about = result.error or {}
        words = about.get("message") or f"it ended as {result.status} ({result.stop_reason})"
        category = str(about.get("category") or result.status)
        return fail(ended, category, str(words))
    if node.command is not None:
        return _read_command(ended, result)
    data: object = result.data
    if node.kind == "verify":
        verdict = as_object(data)
        if verdict.get("verdict") not in VERDICTS:
            return fail(ended, "invalid_output", "its answer is no verdict, pass or fail")
        return _decide(ended, str(verdict["verdict"]), str(verdict.get("reason") or ""))
    if data is None and not _ANSWERS.isdisjoint(node.options):
        words = "its answer is not of the form that was asked for"
        return fail(ended, "invalid_output", words)
    plain = msgspec.to_builtins(data, str_keys=True, enc_hook=stand_in)
    made = _collect_artifacts(node, ended, result, plain)
    if isinstance(made, str):
        return fail(ended, "output_contract", made)
    return msgspec.structs.replace(
        ended, status="done", text=result.final_text, data=plain, artifacts=made
    )


_ANSWERS: Final = frozenset({"schema", "response_format"})


def fail(step: WorkflowStep, category: str, message: str) -> WorkflowStep:
    """Return the step as failed, with the reason."""
    error = {"category": category, "message": message, "step": step.name}
    return msgspec.structs.replace(step, status="failed", error=error)


def _decide(step: WorkflowStep, verdict: str, reason: str) -> WorkflowStep:
    data = {"verdict": verdict, "reason": reason}
    return msgspec.structs.replace(
        step, status="done", text=verdict, data=data, verdict=verdict, reason=reason
    )


def _read_command(step: WorkflowStep, result: AgentResult[Any]) -> WorkflowStep:
    """Read the verdict of a command: what its tool answered, or why it may not run."""
    for entry in reversed(result.entries):
        if type(entry) is ToolResulted:
            if entry.outcome != "ok":
                return fail(step, entry.outcome, entry.result.text)
            verdict, _, reason = entry.result.text.partition("\n")
            return _decide(step, verdict, reason)
    return fail(step, "not_run", "the command was not run")


def _verify_schema(node: Node, step: WorkflowStep, context: NodeContext) -> WorkflowStep:
    """Compare the outputs of the steps before with a JSON Schema."""
    assert node.schema is not None
    checker = Checker(node.schema, f"node {node.id!r}")
    problems: list[str] = []
    for before in context.before:
        value = before.data
        if value is None:
            try:
                value = msgspec.json.decode(before.text)
            except msgspec.DecodeError as error:
                problems.append(f"{before.name}: its text is no JSON: {error}")
                continue
        found = [line.removeprefix("arguments: ") for line in checker.problems(value)]
        problems += [f"{before.name}: {line}" for line in found]
    return _decide(step, "fail" if problems else "pass", "\n".join(problems))


def _collect_artifacts(
    node: Node, step: WorkflowStep, result: AgentResult[Any], data: object
) -> tuple[Artifact, ...] | str:
    """Return the artifacts of a node, or what its contract asks for and is not there."""
    made = list(read_artifacts(result.entries, result.session_id))
    if node.output_kinds:
        first, *others = node.output_kinds
        missing = [kind for kind in others if kind not in [one.kind for one in made]]
        if missing:
            listed = ", ".join(missing)
            return f"it wrote no artifact of kind {listed}: write one with {ARTIFACT_TOOL}"
        text = None if data is not None else result.final_text
        own = Artifact(
            f"artifact_{step.number}_{node.id}",
            first,
            node.id,
            text,
            data,
            node.id,
            result.session_id,
        )
        made.append(own)
    return tuple(_choose(node.artifacts_out, made))
