"""The options that decide what an agent may do: each area declares its own beside its assembly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.agents.authority import access
from windlass.loop.policy import Policy


class AuthorityOptions(access.AccessOptions, total=False):
    """What decides what an agent may do."""


CHECKS = {**access.CHECKS}


def authorizing(options: Mapping[str, Any]) -> list[Policy[Any]]:
    """Everything that may say no to a call, in the order in which it is asked."""
    if CHECKS.keys().isdisjoint(options):
        return []
    return access.policies(options)
