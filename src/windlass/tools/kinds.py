"""Seven classes of tools, from their annotations.

A tool declares `side_effect_level` and `kind`, or names its class: `annotations={"tool_class":
"result_polling"}`. One without any of them is `unknown`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast, get_args

from windlass.tools.tool import Tool

ToolClass: TypeAlias = Literal[
    "read_only", "mutating", "approval", "session_control", "progress", "result_polling", "unknown"
]
CLASSES: Final = cast("tuple[str, ...]", get_args(ToolClass))
PINNED: Final = "pinned"  # annotation: whatever its class, it stays on the surface

_READS: Final = frozenset({"read", "search", "fetch", "think"})
_CHANGES: Final = frozenset({"edit", "write", "delete", "move", "execute"})


def tool_class(tool: Tool) -> ToolClass:
    """Return the class of a tool: `tool_class(add)` -> `read_only`; the safer one in doubt."""
    annotations = tool.annotations
    named = annotations.get("tool_class", annotations.get("kind"))
    if isinstance(named, str) and named in CLASSES:
        return cast("ToolClass", named)
    level, kind = annotations.get("side_effect_level"), annotations.get("kind")
    if kind in _CHANGES or level in ("workspace_write", "process_exec", "network"):
        return "mutating"
    if level in ("none", "read_only") or (level is None and kind in _READS):
        return "read_only"
    # a keyed or transactional tool declares effects
    return "mutating" if tool.effect in ("keyed", "transactional") else "unknown"
