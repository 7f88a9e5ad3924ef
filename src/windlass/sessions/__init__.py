"""Sessions of a store: list, read, fork, seed, approve, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.sessions.api import agent_session_close as agent_session_close
    from windlass.sessions.api import agent_session_fork as agent_session_fork
    from windlass.sessions.api import agent_session_fork_at as agent_session_fork_at
    from windlass.sessions.api import agent_session_list as agent_session_list
    from windlass.sessions.api import agent_session_open as agent_session_open
    from windlass.sessions.api import agent_session_post as agent_session_post
    from windlass.sessions.api import agent_session_read as agent_session_read
    from windlass.sessions.api import agent_session_remind as agent_session_remind
    from windlass.sessions.api import agent_session_reset as agent_session_reset
    from windlass.sessions.api import agent_session_trim as agent_session_trim
    from windlass.sessions.approvals import NoSuchApproval as NoSuchApproval
    from windlass.sessions.approvals import PendingApproval as PendingApproval
    from windlass.sessions.approvals import approve as approve
    from windlass.sessions.approvals import deny as deny
    from windlass.sessions.effect_plans import approve_plan as approve_plan
    from windlass.sessions.effect_plans import plan_of as plan_of
    from windlass.sessions.effects import UndoStep as UndoStep
    from windlass.sessions.scratchpad import (
        agent_session_clear_scratchpad as agent_session_clear_scratchpad,
    )
    from windlass.sessions.scratchpad import agent_session_scratchpad as agent_session_scratchpad
    from windlass.sessions.scratchpad import (
        agent_session_set_scratchpad as agent_session_set_scratchpad,
    )
    from windlass.sessions.seed import (
        agent_session_seed_from_jsonl as agent_session_seed_from_jsonl,
    )
    from windlass.sessions.snapshot import load_snapshot as load_snapshot
    from windlass.sessions.snapshot import save_snapshot as save_snapshot
    from windlass.sessions.undo import undoable as undoable
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "NoSuchApproval": "sessions.approvals",
            "PendingApproval": "sessions.approvals",
            "UndoStep": "sessions.effects",
            "agent_session_clear_scratchpad": "sessions.scratchpad",
            "agent_session_close": "sessions.api",
            "agent_session_fork": "sessions.api",
            "agent_session_fork_at": "sessions.api",
            "agent_session_list": "sessions.api",
            "agent_session_open": "sessions.api",
            "agent_session_post": "sessions.api",
            "agent_session_read": "sessions.api",
            "agent_session_remind": "sessions.api",
            "agent_session_reset": "sessions.api",
            "agent_session_scratchpad": "sessions.scratchpad",
            "agent_session_seed_from_jsonl": "sessions.seed",
            "agent_session_set_scratchpad": "sessions.scratchpad",
            "agent_session_trim": "sessions.api",
            "approve": "sessions.approvals",
            "approve_plan": "sessions.effect_plans",
            "deny": "sessions.approvals",
            "load_snapshot": "sessions.snapshot",
            "plan_of": "sessions.effect_plans",
            "save_snapshot": "sessions.snapshot",
            "undoable": "sessions.undo",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "NoSuchApproval",
    "PendingApproval",
    "UndoStep",
    "agent_session_clear_scratchpad",
    "agent_session_close",
    "agent_session_fork",
    "agent_session_fork_at",
    "agent_session_list",
    "agent_session_open",
    "agent_session_post",
    "agent_session_read",
    "agent_session_remind",
    "agent_session_reset",
    "agent_session_scratchpad",
    "agent_session_seed_from_jsonl",
    "agent_session_set_scratchpad",
    "agent_session_trim",
    "approve",
    "approve_plan",
    "deny",
    "load_snapshot",
    "plan_of",
    "save_snapshot",
    "undoable",
]
