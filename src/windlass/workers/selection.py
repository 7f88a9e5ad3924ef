"""The tools of a worker: what it asks for, cut down to what its parent may give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.agents.artifacts import build_artifact_tool
from windlass.engine.assemble import resolve_names
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject, is_sequence
from windlass.loop.run import Run
from windlass.toolbox.names import BUILTIN_NAMES
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool
from windlass.workers.config import WorkerConfig


class Selection(NamedTuple):
    """The tools of a worker, and the names of those that it may not call."""

    tools: tuple[Tool, ...]
    withheld: tuple[str, ...]


def select_tools(config: WorkerConfig, options: JsonObject, parent: Run | None) -> Selection:
    """Choose the tools of a worker; what its parent does not have it cannot ask for by name.

    Tools that are given as objects are code of the program, and only bound by the parent's rules.
    """
    above = {} if parent is None else dict(parent.plan.tools)
    offered = _find_offered(config, options, above, parent)
    withheld = {name: None for name in above}
    if parent is not None:
        # A name is a wish; it can come from a model.
        objects = {id(one) for one in _listed(config, options)}
        for tool in offered:
            if tool.name in BUILTIN_NAMES and tool.name not in above and id(tool) not in objects:
                withheld[tool.name] = None
                offered = tuple([one for one in offered if one is not tool])
    chosen = offered
    if config.tools is not None:
        known = [tool.name for tool in offered]
        for name in config.tools:
            if name in known or name == ARTIFACT_TOOL:
                continue
            if parent is None:
                raise ConfigError(f"tools names {name!r}, which no tool is{nearest(name, known)}")
            withheld[name] = None
        chosen = tuple([tool for tool in offered if tool.name in config.tools])
        withheld |= dict.fromkeys(known)
    if config.node.mode == "agent" or chosen:
        kept = [tool for tool in chosen if tool.name != ARTIFACT_TOOL]
        chosen = (*kept, build_artifact_tool())
    names = {tool.name for tool in chosen}
    return Selection(chosen, tuple([name for name in withheld if name not in names]))


def _listed(config: WorkerConfig, options: JsonObject) -> Sequence[object]:
    own: object = config.node.tools
    given: object = ToolOptions.read(options).tools if own is None else own
    return given if is_sequence(given) else ()


def _find_offered(
    config: WorkerConfig, options: JsonObject, above: dict[str, Tool], parent: Run | None
) -> tuple[Tool, ...]:
    given: Any = config.node.tools
    others: Any = ToolOptions.read(options).tools
    if given is not None and others is not None:
        raise ConfigError("tools is given twice: in options, and in node")
    given = others if given is None else given
    if given is None and "tool_preset" not in options:
        if parent is not None:
            return tuple(above.values())
        # Without a parent and tools of its own, names can only mean built-in tools.
        given = list(config.tools or ())
    listed: object = given
    if is_sequence(listed) and parent is not None:
        # A name that the parent has means the parent's tool.
        given = [above.get(one, one) if isinstance(one, str) else one for one in listed]
    return as_tools(resolve_names(given, options))
