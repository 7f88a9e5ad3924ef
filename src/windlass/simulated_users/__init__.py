"""Simulated users for tests of agents: scripted ones, and ones that a model plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.simulated_users.agentic import agentic_user as agentic_user
    from windlass.simulated_users.conversation import Statement as Statement
    from windlass.simulated_users.script import fixture_user as fixture_user
    from windlass.simulated_users.script import scripted_user as scripted_user
    from windlass.simulated_users.tools import simulated_user_post_turn as simulated_user_post_turn
    from windlass.simulated_users.tools import (
        simulated_user_read_tools as simulated_user_read_tools,
    )
    from windlass.simulated_users.tools import user_tools as user_tools
    from windlass.simulated_users.user import SimulatedUser as SimulatedUser
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "SimulatedUser": "simulated_users.user",
            "Statement": "simulated_users.conversation",
            "agentic_user": "simulated_users.agentic",
            "fixture_user": "simulated_users.script",
            "scripted_user": "simulated_users.script",
            "simulated_user_post_turn": "simulated_users.tools",
            "simulated_user_read_tools": "simulated_users.tools",
            "user_tools": "simulated_users.tools",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "SimulatedUser",
    "Statement",
    "agentic_user",
    "fixture_user",
    "scripted_user",
    "simulated_user_post_turn",
    "simulated_user_read_tools",
    "user_tools",
]
