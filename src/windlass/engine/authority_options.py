"""The options that decide what an agent may do: each area declares its own beside its assembly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.loop.policy import Policy
from windlass.policies import access
from windlass.policies.preview import options as preview_options
from windlass.policies.taint import options as taint_options
from windlass.tools.tool import Tool


class AuthorityOptions(
    access.AccessOptions, taint_options.TaintOptions, preview_options.PreviewOptions, total=False
):
    """What decides what an agent may do."""


CHECKS = {**access.CHECKS, **taint_options.CHECKS, **preview_options.CHECKS}


def authorizing(options: Mapping[str, Any], tools: Sequence[Tool]) -> list[Policy[Any]]:
    """Everything that may say no to a call, in the order in which it is asked."""
    chosen = taint_options.policies(options, tools)
    if CHECKS.keys().isdisjoint(options):
        return chosen
    return access.policies(options) + chosen  # what the lists deny need not be asked about
