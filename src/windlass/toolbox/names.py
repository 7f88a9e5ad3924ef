"""The names of the built-in tools, without the tools."""

from __future__ import annotations

from typing import Final

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
    }
)
