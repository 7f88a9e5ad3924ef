"""The names of the built-in tools, without the tools."""

from __future__ import annotations

from typing import Final, cast

BUILTIN_NAMES: Final = frozenset(
    {
        "bash",
        "bash_output",
        "bash_stop",
        "edit_apply_node",
        "edit_dry_run",
        "edit_insert_at_anchor",
        "edit_rename_symbol",
        "edit_safe_text_patch",
        "fetch_url",
        "file_edit",
        "file_read",
        "file_write",
        "glob",
        "grep",
    }
)

#: Those that change files, and can take that back from their own record.
UNDOABLE_NAMES: Final = frozenset(
    {
        "edit_apply_node",
        "edit_insert_at_anchor",
        "edit_rename_symbol",
        "edit_safe_text_patch",
        "file_edit",
        "file_write",
    }
)


def split_names(tools: object) -> tuple[list[str], object]:
    """Split the tools of an agent into the names of built-in ones and the others."""
    if not isinstance(tools, (list, tuple)):
        return [], tools
    listed = [*cast("list[object]", tools)]
    named = [one for one in listed if isinstance(one, str) and ":" not in one]
    return named, [one for one in listed if not (isinstance(one, str) and ":" not in one)]
