"""The options that decide what an agent may do: each area declares its own beside its assembly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.agents.authority import access, preview, tainting
from windlass.loop.policy import Policy
from windlass.tools.base import Tool


class AuthorityOptions(
    access.AccessOptions, tainting.TaintOptions, preview.PreviewOptions, total=False
):
    """What decides what an agent may do."""


CHECKS = {**access.CHECKS, **tainting.CHECKS, **preview.CHECKS}


def authorizing(options: Mapping[str, Any], tools: Sequence[Tool]) -> list[Policy[Any]]:
    """Everything that may say no to a call, in the order in which it is asked."""
    chosen = tainting.policies(options, tools)
    if CHECKS.keys().isdisjoint(options):
        return chosen
    return access.policies(options) + chosen  # what the lists deny need not be asked about
