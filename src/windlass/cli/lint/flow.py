"""Roles of arguments and labels of tools, as flow control would take them, and how to say otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from windlass.access.flow.labels import LABELS, flow_of
from windlass.access.flow.roles import role_of
from windlass.cli.config import sections
from windlass.cli.imports import build_tools
from windlass.engine.agent_defaults import read_agent_options
from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_mapping
from windlass.policies.taint.options import Taint, TaintOptions
from windlass.policies.taint.session_values import label_tool
from windlass.tools.tool import Tool

OVERRIDE = (
    "to say otherwise: Annotated[str, w.Target | w.Stake | w.Content] in the signature, "
    'annotations={"roles": …, "result": …} of the tool, or in windlass.toml '
    '[agent] taint = {roles = {send = {to = "target"}}, results = {search = "untrusted"}}'
)


class ArgumentGuess(NamedTuple):
    """The role of an argument, and how it is known."""

    argument: str
    role: str
    why: str


class ToolGuess(NamedTuple):
    """What flow control takes a tool for."""

    tool: str
    server: str | None  # of MCP
    acts: bool
    arguments: tuple[ArgumentGuess, ...]
    labels: tuple[str, ...]
    assumed: bool  # nobody has said its labels
    result: str | None

    def as_line(self) -> str:
        """Describe the tool in a line: `pay(to: target, its name has 'to'): sends_out (assumed)`."""
        shown = [f"{one.argument}: {one.role}, {one.why}" for one in self.arguments]
        labels = list(self.labels) if self.acts or self.labels else []
        known = [f"{', '.join(labels)}{' (assumed)' if self.assumed else ''}"] if labels else []
        known += [f"results {self.result}"] if self.result else []
        server = f" of MCP server {self.server}" if self.server else ""
        arguments = f"({'; '.join(shown)})" if self.acts else ""
        return f"{self.tool}{arguments}{server}: {'; '.join(known) or 'no labels'}"

    def as_data(self) -> JsonObject:
        """Return the same as plain data."""
        return {**self._asdict(), "arguments": [one._asdict() for one in self.arguments]}


def describe_registries(paths: Sequence[str]) -> list[ToolGuess]:
    """Describe the tools with effects of registries, and those that bring content in."""
    rules = _read_rules()
    found: list[ToolGuess] = []
    for path in paths:
        try:
            tools = build_tools([path], option="--registry")
        except ConfigError:
            continue  # a finding says so
        guesses = [describe_tool(tool, rules) for tool in tools]
        found += [one for one in guesses if one.acts or one.labels]
    return found


def describe_tool(tool: Tool, rules: Taint) -> ToolGuess:
    """Describe one tool, with what the options say of it."""
    said = rules.roles.get(tool.name, {})
    labelled = label_tool(
        tool,
        said,
        rules.results.get(tool.name),
        lambda annotations: flow_of(tool.name, annotations, assume=rules.unlabelled == "cautious"),
    )
    annotations, flow = labelled.annotations, labelled.flow
    server = annotations.get("mcp_server")
    known = any([mark in annotations for mark in (*LABELS, "result")])
    return ToolGuess(
        tool.name,
        None if server is None else str(server),
        flow.acts,
        tuple(_guess_roles(tool.parameters, annotations, said)),
        tuple(sorted(flow.labels)),
        not known,
        _describe_result(flow.trust, flow.fields),
    )


def _guess_roles(
    parameters: Mapping[str, Any],
    annotations: Mapping[str, Any],
    said: Mapping[str, object],
    path: str = "",
) -> Iterator[ArgumentGuess]:
    fields: object = parameters.get("properties")
    for name, schema in fields.items() if is_mapping(fields) else ():
        role, why = role_of(name, schema, annotations)
        yield ArgumentGuess(f"{path}{name}", role, "an option says so" if name in said else why)
        inner: object = schema.get("items", schema) if is_mapping(schema) else None
        if is_mapping(inner):
            yield from _guess_roles(inner, annotations, said, f"{path}{name}.")


def _describe_result(trust: str | None, fields: Mapping[str, str]) -> str | None:
    if fields:
        return ", ".join([f"{name} {label}" for name, label in fields.items()])
    return trust


def _read_rules() -> Taint:
    """Read what `[agent]` of the settings here says of flow control."""
    try:
        rules = TaintOptions.read(read_agent_options(sections().load())).taint
    except ConfigError:
        return Taint()  # a finding says so
    return rules or Taint()
