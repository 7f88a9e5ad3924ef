"""The names of the area *Hands* that are built-in tools and their presets."""

from __future__ import annotations

#: Constants of `windlass` that are neither classes nor functions.
CONSTANTS = "TOOL_PRESETS AGENT_FRAMEWORK_DISALLOWED".split()

# tool -> its parameters with their defaults, as a call is written
TOOLS: dict[str, str] = {
    "file_read": "path, offset=1, limit=None",
    "file_write": "path, content, digest=None",
    "file_edit": "path, old_string, new_string, replace_all=False, digest=None",
    "grep": "pattern, path='.', glob=None, max_results=100, context=0, ignore_case=False",
    "glob": "pattern, path='.', max_files=500",
    "bash": "command, timeout=30, cwd=None, background=False",
}

PRESETS: dict[str, str] = {
    "readonly": "file_read grep glob",
    "readwrite": "file_read file_write file_edit grep glob",
    "full": "file_read file_write file_edit grep glob bash",
}
#: Given by name alone.
IN_NO_PRESET = """
    bash_output bash_stop fetch_url edit_apply_node edit_insert_at_anchor edit_rename_symbol edit_dry_run
    edit_safe_text_patch
""".split()
