"""The tools of a worker: what it asks for, cut down to what its parent may give."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from windlass.agents.artifacts import NAME as ARTIFACT_TOOL
from windlass.agents.artifacts import build_artifact_tool
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject, is_sequence
from windlass.loop.run import Run
from windlass.toolbox.names import BUILTIN_NAMES
from windlass.toolbox.options import WorkspaceOptions
from windlass.toolbox.presets import TOOL_PRESETS, ToolPresetOptions
from windlass.toolbox.session_workspace import find_workspace
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool
from windlass.workers.config import WorkerConfig

_OF_THE_PARENT: Final = ("sandbox", "mounts", "fetch", "workspace")


class Selection(NamedTuple):
    """The tools of a worker, and the names of those that it may not call.

    Built-in tools are names: they are built for the folder and the sandbox that the worker has.
    """

    tools: tuple[Tool | str, ...]
    withheld: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return tuple([one if isinstance(one, str) else one.name for one in self.tools])

    @property
    def builtin(self) -> tuple[str, ...]:
        """The names of those that are built in."""
        return tuple([one for one in self.tools if isinstance(one, str)])


def select_tools(config: WorkerConfig, options: JsonObject, parent: Run | None) -> Selection:
    """Choose the tools of a worker; what its parent does not have it cannot ask for by name.

    Tools that are given as objects are code of the program, and only bound by the parent's rules.
    """
    above = {} if parent is None else {tool.name: tool for tool in parent.plan.tools.values()}
    offered = _find_offered(config, options, above, parent)
    withheld: dict[str, None] = dict.fromkeys(above)
    if parent is not None:
        # A name is a wish, which can come from a model.
        foreign = [name for name, one in offered.items() if one == name and name not in above]
        withheld |= dict.fromkeys(foreign)
        offered = {
            name: _take_over(above[name]) if one == name else one
            for name, one in offered.items()
            if name not in foreign
        }
    chosen = offered
    if config.tools is not None:
        for name in config.tools:
            if name in offered or name == ARTIFACT_TOOL:
                continue
            if parent is None:
                raise ConfigError(f"tools names {name!r}, which no tool is{nearest(name, offered)}")
            withheld[name] = None
        chosen = {name: one for name, one in offered.items() if name in config.tools}
        withheld |= dict.fromkeys(offered)
    if config.node.mode == "agent" or chosen:
        chosen = {**chosen, ARTIFACT_TOOL: build_artifact_tool()}
    left = tuple([name for name in withheld if name not in chosen])
    return Selection(tuple(chosen.values()), left)


def _find_offered(
    config: WorkerConfig, options: JsonObject, above: dict[str, Tool], parent: Run | None
) -> dict[str, Tool | str]:
    """Return the tools that the worker asks for, by name; a name stands for a tool that is meant by it."""
    given: Any = config.node.tools
    others: Any = ToolOptions.read(options).tools
    if given is not None and others is not None:
        raise ConfigError("tools is given twice: in options, and in node")
    given = others if given is None else given
    preset = ToolPresetOptions.read(options).tool_preset
    if given is None and preset is None:
        if parent is not None:
            return {name: _take_over(tool) for name, tool in above.items()}
        # Without a parent and tools of its own, names can only mean built-in tools.
        given = list(config.tools or ())
    wanted = TOOL_PRESETS[preset] if preset else ()
    return {**_read_tools(given, above), **{name: name for name in wanted}}


def _read_tools(given: object, above: dict[str, Tool]) -> dict[str, Tool | str]:
    listed: Sequence[object] = given if is_sequence(given) else as_tools(given)
    found: dict[str, Tool | str] = {}
    for one in listed:
        if isinstance(one, str) and ":" not in one:
            if one not in BUILTIN_NAMES and one not in above:
                hint = nearest(one, [*above, *BUILTIN_NAMES])
                raise ConfigError(f"tools names {one!r}, which no tool is{hint}")
            found[one] = one
            continue
        for tool in as_tools([one]):
            if tool.name in found:
                raise ConfigError(f"there are two tools named {tool.name!r}")
            found[tool.name] = tool
    return found


def _take_over(tool: Tool) -> Tool | str:
    """Return a tool of the parent; a built-in one by its name, to be built where the worker works."""
    home = getattr(tool.handler, "__module__", None) or ""
    is_builtin = tool.name in BUILTIN_NAMES and home.startswith("windlass.toolbox.")
    return tool.name if is_builtin else tool


def inherit_place(
    config: WorkerConfig, options: JsonObject, chosen: Selection, parent: Run | None
) -> JsonObject:
    """Return the options with the sandbox, the mounts and the folder of the parent.

    They hold for built-in tools: what the parent may not reach, the worker may not reach.
    """
    above = None if parent is None else parent.plan.workspace
    if parent is None or not chosen.builtin or not isinstance(above, WorkspaceOptions):
        return options
    for name in _OF_THE_PARENT:
        if name in config.options:
            raise ConfigError(f"{name} is the parent's: leave it out, or leave out parent")
    mounts = above.resolve_mounts()
    recorded = find_workspace(parent.journal.entries)
    anchor = above.anchor if recorded is None else os.path.realpath(recorded.anchor)
    folder = WorkspaceOptions.read(options).workspace or anchor
    if not any([_lies_in(folder, root) for root in (anchor, *mounts)]):
        raise ConfigError(f"execution.cwd: {folder} is not in the workspace of the parent")
    variables = {**above.sandbox.variables, **config.execution.env}
    return {
        **options,
        "sandbox": {**msgspec.structs.asdict(above.sandbox), "variables": variables},
        "fetch": msgspec.structs.asdict(above.fetch),
        "mounts": mounts,
        "workspace": folder,
    }


def _lies_in(folder: str, root: str) -> bool:
    place = os.path.realpath(folder)
    return os.path.commonpath([place, root]) == root
