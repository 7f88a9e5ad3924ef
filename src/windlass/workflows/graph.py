"""Graphs: what runs, in which order, and under which conditions; checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from windlass.agents.agent import Agent
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject, as_given, is_mapping, is_sequence
from windlass.loop.plan import digest_of
from windlass.options.checks import no_key
from windlass.options.index import NAMES
from windlass.output.options import OutputOptions
from windlass.workflows.steps import WorkflowStep

NodeKind: TypeAlias = Literal["stage", "verify", "subagent"]
TranscriptMode: TypeAlias = Literal["inherit", "fork", "reset", "compact"]
Condition: TypeAlias = Callable[[WorkflowStep], object]

KINDS: Final = ("stage", "verify", "subagent")
MODES: Final = ("agent", "llm")
TRANSCRIPTS: Final = ("inherit", "fork", "reset", "compact")
VERDICTS: Final = ("pass", "fail")
_SPEC: Final = ("name", "version", "entry", "nodes", "edges")
_EDGE: Final = ("from", "to", "when", "on")
_TESTS: Final = ("equals", "in", "exists")
_CHECKS: Final = ("command", "schema", "judge")
_NODE: Final = (
    "kind",
    "mode",
    "task",
    "agent",
    "model_policy",
    "output_contract",
    "transcript",
    "context",
    "artifacts",
    "retries",
    "command",
    "judge",
    "seconds",
)
_CONTRACT: Final = ("output_kinds", "schema")
_CONTEXT: Final = ("task", "outputs", "max_chars")
_ARTIFACTS: Final = ("in", "out")
#: Options of a loop that belong to the whole workflow, and to no node.
_OF_THE_WORKFLOW: Final = frozenset(
    ("session_id", "store", "caller", "deps", "run_id", "take_over", "messages", "on_pending")
) | {"on_cancel", "abort", "request_id", "conversation_id", "on_event", "name", "transcript"}
_MAX_CHARS: Final = 100_000


class ContextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a node reads of the work before it, beside its own task."""

    task: bool = True
    """The task of the workflow, where the node has one of its own."""
    outputs: str | tuple[str, ...] = "previous"
    """The outputs of the steps before: `previous`, `all`, `none`, or names of nodes."""
    max_chars: int = _MAX_CHARS
    """The most characters of outputs and artifacts together."""


class Node(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A node of a graph, with all its values checked."""

    id: str
    kind: NodeKind
    mode: Literal["agent", "llm"] = "agent"
    task: str | None = None
    agent: Agent[Any, Any] | None = None
    transcript: TranscriptMode = "reset"
    context: ContextOptions = ContextOptions()
    artifacts_in: str | tuple[str, ...] = "all"
    artifacts_out: str | tuple[str, ...] = "all"
    output_kinds: tuple[str, ...] = ()
    retries: int = 0
    command: str | None = None
    judge: str | None = None
    schema: JsonObject | None = None
    seconds: float = 600.0
    options: JsonObject = {}

    @property
    def digest(self) -> str:
        """Identify what the node does, as far as it is data."""
        plain = {name: value for name, value in self.options.items() if _is_plain(value)}
        agent = None if self.agent is None else self.agent.name
        return digest_of(
            [self.kind, self.mode, self.task, agent, self.transcript, self.command, self.judge]
            + [self.schema, self.output_kinds, plain]
        )


class Edge(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An edge from one node to another, and when it is followed."""

    source: str
    target: str
    when: Condition | None = None
    on: Literal["pass", "fail"] | None = None
    words: str | None = None
    """The condition for people."""

    @property
    def is_conditional(self) -> bool:
        """Whether it may happen that it is not followed."""
        return self.when is not None or self.on is not None


class Graph:
    """The nodes and edges of a workflow."""

    def __init__(
        self,
        name: str,
        entry: str,
        nodes: Mapping[str, Node],
        edges: Iterable[Edge],
        version: str = "1",
    ) -> None:
        self.name, self.entry, self.version = name, entry, version
        self.nodes, self.edges = dict(nodes), tuple(edges)

    def edges_from(self, node: str) -> list[Edge]:
        """List the edges that leave a node."""
        return [edge for edge in self.edges if edge.source == node]

    @cached_property
    def forward(self) -> dict[str, frozenset[str]]:
        """The nodes that each node leads to, without going round a loop."""
        back = {id(edge) for edge in find_back_edges(self.entry, self.edges)}
        after: dict[str, set[str]] = {node: set() for node in self.nodes}
        for edge in self.edges:
            if id(edge) not in back:
                after[edge.source].add(edge.target)
        return {node: frozenset(_walk(node, after)) for node in self.nodes}


def read_graph(spec: Mapping[str, Any]) -> Graph:
    """Check the description of a graph; `ConfigError` names what is wrong in it."""
    if not is_mapping(as_given(spec)):
        raise ConfigError(f"a graph is a dict with nodes and edges, not {safe_repr(spec)}")
    _check_keys("a graph", spec, _SPEC)
    name = spec.get("name", "workflow")
    check_identifier(name, "a graph's name")
    version = check_identifier(spec.get("version", "1"), "a graph's version")
    given = spec.get("nodes")
    if not is_mapping(given) or not given:
        raise ConfigError("a graph has nodes: {id: {…}}, at least one")
    nodes = {check_identifier(id, "a node"): _read_node(id, one) for id, one in given.items()}
    listed = spec.get("edges", ())
    if not is_sequence(listed):
        raise ConfigError(f"edges is a list of {{from, to}}, not {safe_repr(listed)}")
    edges = [_read_edge(at, one, nodes) for at, one in enumerate(listed)]
    graph = Graph(name, _find_entry(spec.get("entry"), nodes, edges), nodes, edges, version)
    _check_context(graph)
    _check_reach(graph)
    _check_loops(graph)
    return graph


# --------------------------------------------------------------------------- nodes


def _read_node(id: str, given: object) -> Node:
    where = f"node {id!r}"
    if not is_mapping(given):
        raise ConfigError(f"{where} is a dict, not {safe_repr(given)}")
    node = dict(given)
    loop = NAMES["loop"] - _OF_THE_WORKFLOW | {"system"}
    for key in node:
        if key not in _NODE and key not in loop:
            raise no_key(where, key, (*_NODE, *loop))
    kind = _choose(where, "kind", node.pop("kind", "stage"), KINDS)
    mode = _choose(where, "mode", node.pop("mode", "agent"), MODES)
    own = {key: node.pop(key) for key in _NODE if key in node}
    contract = _read_contract(where, own.get("output_contract"))
    options = {**_read_model_policy(where, own.get("model_policy")), **node}
    schema: Any = contract.get("schema")
    if kind == "verify":
        schema = schema or OutputOptions.read(options).schema
        options = {key: value for key, value in options.items() if key != "schema"}
    elif schema is not None:
        options["schema"] = schema
    artifacts = _read_artifacts(where, own.get("artifacts"))
    read = Node(
        id=id,
        kind=kind,
        mode=mode,
        task=_read_text(where, "task", own.get("task")),
        agent=_read_agent(where, own.get("agent"), options),
        transcript=_choose(where, "transcript", own.get("transcript", "reset"), TRANSCRIPTS),
        context=_read_context(where, own.get("context"), kind),
        artifacts_in=artifacts.get("in", "none" if kind == "subagent" else "all"),
        artifacts_out=artifacts.get("out", "all"),
        output_kinds=contract.get("output_kinds", ()),
        retries=_read_number(where, "retries", own.get("retries", 0), 0),
        command=_read_text(where, "command", own.get("command")),
        judge=_read_text(where, "judge", own.get("judge")),
        schema=schema,
        seconds=_read_number(where, "seconds", own.get("seconds", 600), 1),
        options=options,
    )
    _check_node(where, read)
    return read


def _check_node(where: str, node: Node) -> None:
    """Refuse values that contradict each other."""
    ways = [name for name in _CHECKS if getattr(node, name) is not None]
    if node.kind != "verify" and (node.command is not None or node.judge is not None):
        raise ConfigError(f'{where}: {ways[0]} is for a node of kind "verify"')
    if node.kind == "verify" and len(ways) > 1:
        raise ConfigError(f"{where} verifies by one of {', '.join(_CHECKS)}, not by {ways}")
    if node.mode == "llm" and ToolOptions.read(node.options).tools:
        raise ConfigError(f'{where}: mode "llm" asks a model once, without tools; use "agent"')
    if node.kind == "verify" and ways and ToolOptions.read(node.options).tools:
        raise ConfigError(f"{where} verifies by {ways[0]}: it takes no tools")
    if node.agent is not None and (node.kind == "verify" or node.mode == "llm"):
        raise ConfigError(f"{where}: agent is for a stage or a subagent with mode agent")


def _read_agent(where: str, given: object, options: JsonObject) -> Agent[Any, Any] | None:
    if given is None:
        return None
    if not isinstance(given, Agent):
        raise ConfigError(f"{where}: agent is a windlass.Agent, not {safe_repr(given)}")
    if options:
        name = next(iter(options))
        raise ConfigError(f"{where}: {name} is for the loop of the node; use agent.with_({name}=…)")
    return cast("Agent[Any, Any]", given)


def _read_model_policy(where: str, given: object) -> JsonObject:
    if given is None:
        return {}
    if not is_mapping(given):
        raise ConfigError(f"{where}: model_policy is a dict, not {safe_repr(given)}")
    loop = NAMES["loop"] - _OF_THE_WORKFLOW
    for key in given:
        if key not in loop:
            raise no_key(f"{where}: model_policy", key, loop)
    return dict(given)


def _read_contract(where: str, given: object) -> JsonObject:
    if given is None:
        return {}
    if not is_mapping(given):
        raise ConfigError(f"{where}: output_contract is a dict, not {safe_repr(given)}")
    _check_keys(f"{where}: output_contract", given, _CONTRACT)
    read = dict(given)
    if "output_kinds" in read:
        read["output_kinds"] = _read_names(where, "output_kinds", read["output_kinds"])
    return read


def _read_context(where: str, given: object, kind: str) -> ContextOptions:
    usual = ContextOptions(outputs="none") if kind == "subagent" else ContextOptions()
    if given is None:
        return usual
    if not is_mapping(given):
        raise ConfigError(f"{where}: context is a dict, not {safe_repr(given)}")
    _check_keys(f"{where}: context", given, _CONTEXT)
    changed = dict(given)
    if not isinstance(changed.get("task", True), bool):
        raise ConfigError(f"{where}: context.task is True or False")
    if "outputs" in changed:
        words = ("previous", "all", "none")
        changed["outputs"] = _read_choice(where, "context.outputs", changed["outputs"], words)
    if "max_chars" in changed:
        changed["max_chars"] = _read_number(where, "max_chars", changed["max_chars"], 1)
    return msgspec.structs.replace(usual, **changed)


def _read_artifacts(where: str, given: object) -> JsonObject:
    if given is None:
        return {}
    if not is_mapping(given):
        raise ConfigError(f'{where}: artifacts is {{"in": …, "out": …}}, not {safe_repr(given)}')
    _check_keys(f"{where}: artifacts", given, _ARTIFACTS)
    return {
        key: _read_choice(where, f"artifacts.{key}", value, ("all", "none"))
        for key, value in given.items()
    }


# --------------------------------------------------------------------------- edges


def _read_edge(at: int, given: object, nodes: Mapping[str, Node]) -> Edge:
    where = f"edge {at}"
    if not is_mapping(given):
        raise ConfigError(f"{where} is a dict {{from, to}}, not {safe_repr(given)}")
    _check_keys(where, given, _EDGE)
    for key in ("from", "to"):
        if key not in given:
            raise ConfigError(f"{where} leads nowhere: it has no {key!r}")
        name: object = given[key]
        if not isinstance(name, str) or name not in nodes:
            hint = nearest(name, nodes) if isinstance(name, str) else ""
            raise ConfigError(f"{where}: {key} names {safe_repr(name)}, which no node is{hint}")
    on = given.get("on")
    if on is not None:
        _choose(where, "on", on, VERDICTS)
        if nodes[given["from"]].kind != "verify":
            raise ConfigError(f"{where}: on is for edges of a verify node; use when")
    when, words = _read_condition(where, given.get("when"))
    return Edge(source=given["from"], target=given["to"], when=when, on=on, words=words)


def _read_condition(where: str, given: object) -> tuple[Condition | None, str | None]:
    """Read a predicate on a step: a function, or a dict that compares one of its fields."""
    if given is None:
        return None, None
    if callable(given):
        return given, getattr(given, "__name__", "when").replace("<lambda>", "when")
    if not is_mapping(given):
        raise ConfigError(
            f"{where}: when is a function of the step, or {{field, equals | in | exists}}, "
            f"not {safe_repr(given)}"
        )
    _check_keys(f"{where}: when", given, ("field", *_TESTS))
    tests = [name for name in _TESTS if name in given]
    field = given.get("field")
    if not isinstance(field, str) or not field or len(tests) != 1:
        raise ConfigError(f"{where}: when has a field and one of {', '.join(_TESTS)}")
    test, value = tests[0], given[tests[0]]
    if test == "in" and (isinstance(value, str) or not is_sequence(value)):
        raise ConfigError(f"{where}: when.in is a list, not {safe_repr(value)}")
    words = f"{field} {'=' if test == 'equals' else test} {value!s:.40}"
    return FieldTest(field, test, value), words


class FieldTest(msgspec.Struct, frozen=True):
    """A comparison of a field of a step: `{"field": "data.score", "equals": 3}`."""

    field: str
    test: str
    value: Any

    def __call__(self, step: WorkflowStep) -> bool:
        """Compare the field of a step."""
        there, found = _look_up(step, self.field)
        if self.test == "exists":
            return there is bool(self.value)
        if self.test == "in":
            return there and found in self.value
        return there and found == self.value


def _look_up(step: WorkflowStep, path: str) -> tuple[bool, object]:
    """Find a field of the step, or of its data."""
    head, *rest = path.split(".")
    value: Any = step
    if head not in WorkflowStep.__struct_fields__ and head != "output":
        rest, value = [head, *rest], step.data
    else:
        value = getattr(step, head)
    for part in rest:
        if is_mapping(value) and part in value:
            value = value[part]
        elif is_sequence(value) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return value is not None, value


# --------------------------------------------------------------------------- the shape


def _find_entry(given: object, nodes: Mapping[str, Node], edges: list[Edge]) -> str:
    if given is None:
        reached = {edge.target for edge in edges}
        first = [node for node in nodes if node not in reached]
        if len(first) == 1:
            return first[0]
        raise ConfigError("a graph has an entry: the node that it begins with")
    if not isinstance(given, str) or given not in nodes:
        hint = nearest(given, nodes) if isinstance(given, str) else ""
        raise ConfigError(f"entry names {safe_repr(given)}, which no node is{hint}")
    return given


def _check_context(graph: Graph) -> None:
    for name, node in graph.nodes.items():
        outputs = node.context.outputs
        for one in () if isinstance(outputs, str) else outputs:
            if one not in graph.nodes:
                hint = nearest(one, graph.nodes)
                raise ConfigError(
                    f"node {name!r}: context.outputs names {one!r}, which no node is{hint}"
                )


def _check_reach(graph: Graph) -> None:
    after: dict[str, set[str]] = {node: set() for node in graph.nodes}
    for edge in graph.edges:
        after[edge.source].add(edge.target)
    reached = {graph.entry, *_walk(graph.entry, after)}
    lost = [node for node in graph.nodes if node not in reached]
    if lost:
        raise ConfigError(
            f"nothing leads to {', '.join(map(repr, lost))} from the entry {graph.entry!r}"
        )


def _check_loops(graph: Graph) -> None:
    """Refuse a loop whose edges are all followed always: nothing but `max_steps` would end it."""
    always = [edge for edge in graph.edges if not edge.is_conditional]
    for edge in always:
        if graph.nodes[edge.source].kind == "verify":
            continue  # followed only when it passes
        after: dict[str, set[str]] = {node: set() for node in graph.nodes}
        for one in always:
            if graph.nodes[one.source].kind != "verify":
                after[one.source].add(one.target)
        if edge.source == edge.target or edge.source in _walk(edge.target, after):
            raise ConfigError(
                f"the loop through {edge.source!r} and {edge.target!r} has no bound: give one of its "
                "edges a condition, when=…, or on=… after a verify node"
            )


def _walk(start: str, after: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(after[start])
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += after[node]
    return found


def find_back_edges(entry: str, edges: Iterable[Edge]) -> list[Edge]:
    """Find the edges that close a loop, seen from the entry."""
    after: dict[str, list[Edge]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge)
    back: list[Edge] = []
    on_path, done = {entry}, set[str]()
    stack = [(entry, iter(after.get(entry, ())))]
    while stack:
        node, rest = stack[-1]
        edge = next(rest, None)
        if edge is None:
            stack.pop()
            on_path.discard(node)
            done.add(node)
        elif edge.target in on_path:
            back.append(edge)
        elif edge.target not in done:
            on_path.add(edge.target)
            stack.append((edge.target, iter(after.get(edge.target, ()))))
    return back


# --------------------------------------------------------------------------- values


def _check_keys(where: str, given: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise no_key(where, key, known)


def _choose(where: str, key: str, given: object, known: tuple[str, ...]) -> Any:
    if isinstance(given, str) and given in known:
        return given
    hint = nearest(given, known) if isinstance(given, str) else ""
    raise ConfigError(f"{where}: {key} is one of {', '.join(known)}, not {safe_repr(given)}{hint}")


def _read_text(where: str, key: str, given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(f"{where}: {key} is a text that is not blank, not {safe_repr(given)}")
    return given


def _read_number(where: str, key: str, given: object, least: int) -> int:
    if type(given) is not int or given < least:
        raise ConfigError(f"{where}: {key} is a number of at least {least}, not {safe_repr(given)}")
    return given


def _read_names(where: str, key: str, given: object) -> tuple[str, ...]:
    if not is_sequence(given) or not all([isinstance(one, str) and one for one in given]):
        raise ConfigError(f"{where}: {key} is a list of names, not {safe_repr(given)}")
    return tuple(given)


def _read_choice(
    where: str, key: str, given: object, known: tuple[str, ...]
) -> str | tuple[str, ...]:
    if isinstance(given, str):
        return str(_choose(where, key, given, known))
    return _read_names(where, key, given)


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float, bool, type(None)))
