"""Built-in tools by name: `tools=["bash"]`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final, TypeAlias, cast
from weakref import WeakValueDictionary

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.options.group import Values
from windlass.toolbox.bash import build_bash_tools
from windlass.toolbox.edits.tools import EditTools
from windlass.toolbox.files import build_file_tools
from windlass.toolbox.options import WorkspaceOptions
from windlass.toolbox.presets import TOOL_PRESETS, ToolPresetOptions
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.search.tools import build_search_tools
from windlass.tools.filter import ToolFilterOptions, filter_names
from windlass.tools.tool import Tool

#: Builds several tools that belong together, by name.
ToolFamily: TypeAlias = Callable[[WorkspaceOptions, Workspace], Mapping[str, Tool]]


def _build_bash(options: WorkspaceOptions, workspace: Workspace) -> Mapping[str, Tool]:
    return build_bash_tools(workspace, options.sandbox)


def _build_edits(_options: WorkspaceOptions, workspace: Workspace) -> Mapping[str, Tool]:
    return {one.name: one for one in EditTools(workspace)}


def _build_files(_options: WorkspaceOptions, workspace: Workspace) -> Mapping[str, Tool]:
    return build_file_tools(workspace)


def _build_fetch(options: WorkspaceOptions, _workspace: Workspace) -> Mapping[str, Tool]:
    # It needs the HTTP client, which agents with other tools need not load.
    module = import_module("windlass.toolbox.fetch.tool")
    built: Mapping[str, Tool] = module.build_fetch_tools(options.fetch)
    return built


def _build_search(_options: WorkspaceOptions, workspace: Workspace) -> Mapping[str, Tool]:
    return build_search_tools(workspace)


_BASH: Final[ToolFamily] = _build_bash
#: The family of each built-in tool.
FAMILIES: Final[dict[str, ToolFamily]] = {
    "bash": _BASH,
    "bash_output": _BASH,
    "bash_stop": _BASH,
    "edit_apply_node": _build_edits,
    "edit_dry_run": _build_edits,
    "edit_insert_at_anchor": _build_edits,
    "edit_rename_symbol": _build_edits,
    "edit_safe_text_patch": _build_edits,
    "fetch_url": _build_fetch,
    "file_edit": _build_files,
    "file_read": _build_files,
    "file_write": _build_files,
    "glob": _build_search,
    "grep": _build_search,
}


def build_builtin_tools(names: Sequence[str], values: Values) -> dict[str, Tool]:
    """Build the built-in tools of these names for an agent with these options."""
    options = WorkspaceOptions.read(values)
    workspace: Workspace | None = None
    built: dict[ToolFamily, Mapping[str, Tool]] = {}
    found: dict[str, Tool] = {}
    for name in names:
        family = FAMILIES.get(name)
        if family is None:
            raise ConfigError(
                f"there is no built-in tool {safe_repr(name)}{nearest(name, FAMILIES)}; "
                "write a tool of yours as 'module:function'"
            )
        if workspace is None:
            workspace = open_workspace(options)
        if family not in built:
            built[family] = family(options, workspace)
        found[name] = built[family][name]
    return found


def open_workspace(options: WorkspaceOptions) -> Workspace:
    """Open the workspace that the options name; `ConfigError` if it cannot be had.

    Agents with the same folders share it, so that a program that makes many agents holds it once.
    """
    mounts = options.resolve_mounts()
    key = (_identify(options.anchor), *[(_identify(path), mode) for path, mode in mounts.items()])
    found = _open.get(key)
    if found is None:
        found = _open[key] = Workspace(options.workspace or os.getcwd(), options.mounts)
    return found


_open: WeakValueDictionary[tuple[object, ...], Workspace] = WeakValueDictionary()


def _identify(path: str) -> tuple[str, int, int]:
    """Return a folder's path and which folder it is now; zeros where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return path, 0, 0
    return path, status.st_dev, status.st_ino


def add_preset(tools: object, values: Values) -> list[object]:
    """Return the tools of an agent with those of its `tool_preset`, built-in ones built.

    A tool that the agent may not use is not built: it may need what this machine has not.
    """
    listed: list[object] = []
    if tools is not None:
        listed = [*cast("list[object]", tools)] if isinstance(tools, (list, tuple)) else [tools]
    preset = ToolPresetOptions.read(values).tool_preset
    wanted = filter_names(ToolFilterOptions.read(values), TOOL_PRESETS[preset] if preset else ())
    return replace_names([*listed, *[one for one in wanted if one not in listed]], values)


def replace_names(tools: Sequence[object], values: Values) -> list[object]:
    """Return the tools with the names of built-in ones replaced by the tools."""
    names = [one for one in tools if is_builtin_name(one)]
    built = build_builtin_tools([str(one) for one in names], values)
    return [built[one] if isinstance(one, str) and one in built else one for one in tools]


def is_builtin_name(tool: object) -> bool:
    """Check whether a text among the tools is the name of a built-in one, not of a function."""
    return isinstance(tool, str) and ":" not in tool
