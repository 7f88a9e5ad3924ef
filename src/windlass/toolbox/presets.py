"""Presets of built-in tools: `Agent(model, tool_preset="readonly")`."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias, get_args

from windlass.options.checks import one_of, optional
from windlass.options.group import Flag, Option, OptionGroup

ToolPreset: TypeAlias = Literal["readonly", "readwrite", "full"]

TOOL_PRESETS: Final[dict[ToolPreset, tuple[str, ...]]] = {
    "readonly": ("file_read", "grep", "glob"),
    "readwrite": ("file_read", "file_write", "file_edit", "grep", "glob"),
    "full": ("file_read", "file_write", "file_edit", "grep", "glob", "bash"),
}
"""The built-in tools of each preset; all others are given by name, as in `tools=["fetch_url"]`."""


class ToolPresetOptions(OptionGroup, frozen=True, kw_only=True):
    """Built-in tools by preset."""

    tool_preset: Annotated[
        ToolPreset | None,
        Option(
            optional(one_of(*get_args(ToolPreset))),
            flags=(Flag(names=("--tools-preset",)),),
            # A file of a project grants no tools: programs and command lines do.
            in_file=False,
        ),
    ] = None
    """Built-in tools beside `tools`: to look at files, to change them, or to run commands as well."""
