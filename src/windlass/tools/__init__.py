"""Tools that a model may call: how they are built, checked and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.tools.filter import AGENT_FRAMEWORK_DISALLOWED as AGENT_FRAMEWORK_DISALLOWED
    from windlass.tools.middleware.layers import with_audit_sink as with_audit_sink
    from windlass.tools.middleware.layers import with_consent as with_consent
    from windlass.tools.middleware.layers import with_dry_run as with_dry_run
    from windlass.tools.middleware.layers import with_handoff_sink as with_handoff_sink
    from windlass.tools.middleware.layers import with_rate_limit as with_rate_limit
    from windlass.tools.middleware.layers import with_telemetry as with_telemetry
    from windlass.tools.middleware.stack import ToolCaller as ToolCaller
    from windlass.tools.middleware.stack import default_tool_caller as default_tool_caller
    from windlass.tools.registry import tool_define as tool_define
    from windlass.tools.registry import tool_registry as tool_registry
    from windlass.tools.registry import tool_select as tool_select
    from windlass.tools.roles import Content as Content
    from windlass.tools.roles import Stake as Stake
    from windlass.tools.roles import Target as Target
    from windlass.tools.search.options import ToolSearch as ToolSearch
    from windlass.tools.tool import AgentInfo as AgentInfo
    from windlass.tools.tool import Parked as Parked
    from windlass.tools.tool import Retry as Retry
    from windlass.tools.tool import Tool as Tool
    from windlass.tools.tool import ToolContext as ToolContext
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "AGENT_FRAMEWORK_DISALLOWED": "tools.filter",
            "AgentInfo": "tools.tool",
            "Content": "tools.roles",
            "Parked": "tools.tool",
            "Retry": "tools.tool",
            "Stake": "tools.roles",
            "Target": "tools.roles",
            "Tool": "tools.tool",
            "ToolCaller": "tools.middleware.stack",
            "ToolContext": "tools.tool",
            "ToolSearch": "tools.search.options",
            "default_tool_caller": "tools.middleware.stack",
            "tool_define": "tools.registry",
            "tool_registry": "tools.registry",
            "tool_select": "tools.registry",
            "with_audit_sink": "tools.middleware.layers",
            "with_consent": "tools.middleware.layers",
            "with_dry_run": "tools.middleware.layers",
            "with_handoff_sink": "tools.middleware.layers",
            "with_rate_limit": "tools.middleware.layers",
            "with_telemetry": "tools.middleware.layers",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "AGENT_FRAMEWORK_DISALLOWED",
    "AgentInfo",
    "Content",
    "Parked",
    "Retry",
    "Stake",
    "Target",
    "Tool",
    "ToolCaller",
    "ToolContext",
    "ToolSearch",
    "default_tool_caller",
    "tool_define",
    "tool_registry",
    "tool_select",
    "with_audit_sink",
    "with_consent",
    "with_dry_run",
    "with_handoff_sink",
    "with_rate_limit",
    "with_telemetry",
]
