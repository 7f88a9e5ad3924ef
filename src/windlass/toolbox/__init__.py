"""Built-in tools: files, search and commands inside a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.toolbox.edits.refusal import EditRefused as EditRefused
    from windlass.toolbox.edits.reminder import edit_reminder as edit_reminder
    from windlass.toolbox.edits.result import EditResult as EditResult
    from windlass.toolbox.edits.tools import EditTools as EditTools
    from windlass.toolbox.edits.tools import edit_apply_node as edit_apply_node
    from windlass.toolbox.edits.tools import edit_dry_run as edit_dry_run
    from windlass.toolbox.edits.tools import edit_insert_at_anchor as edit_insert_at_anchor
    from windlass.toolbox.edits.tools import edit_rename_symbol as edit_rename_symbol
    from windlass.toolbox.edits.tools import edit_safe_text_patch as edit_safe_text_patch
    from windlass.toolbox.options import Fetch as Fetch
    from windlass.toolbox.options import Sandbox as Sandbox
    from windlass.toolbox.presets import TOOL_PRESETS as TOOL_PRESETS
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "EditRefused": "toolbox.edits.refusal",
            "EditResult": "toolbox.edits.result",
            "EditTools": "toolbox.edits.tools",
            "Fetch": "toolbox.options",
            "Sandbox": "toolbox.options",
            "TOOL_PRESETS": "toolbox.presets",
            "edit_apply_node": "toolbox.edits.tools",
            "edit_dry_run": "toolbox.edits.tools",
            "edit_insert_at_anchor": "toolbox.edits.tools",
            "edit_reminder": "toolbox.edits.reminder",
            "edit_rename_symbol": "toolbox.edits.tools",
            "edit_safe_text_patch": "toolbox.edits.tools",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "EditRefused",
    "EditResult",
    "EditTools",
    "Fetch",
    "Sandbox",
    "TOOL_PRESETS",
    "edit_apply_node",
    "edit_dry_run",
    "edit_insert_at_anchor",
    "edit_reminder",
    "edit_rename_symbol",
    "edit_safe_text_patch",
]
