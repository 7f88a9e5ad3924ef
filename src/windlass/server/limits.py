"""Limits that a client may lower and never raise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from windlass.generate.options import TOOL_ITERATIONS
from windlass.json_types import JsonObject
from windlass.server.refusal import refuse


class ClientLimit(NamedTuple):
    """A limit by its name: what it is where the host says nothing, and what a number must be."""

    unset: float | None  # None: there is none
    least: int
    whole: bool


LIMITS: Final = {
    "max_tool_iterations": ClientLimit(TOOL_ITERATIONS, 0, True),
    "max_tokens": ClientLimit(None, 1, True),
    "max_output_tokens": ClientLimit(None, 1, True),
    "max_cost_usd": ClientLimit(None, 0, False),
}


def lower_limits(host: Mapping[str, Any], asked: Mapping[str, Any]) -> JsonObject:
    """Return the limits of one request: the host's, or lower ones that the client asked for.

    `lower_limits({"max_tokens": 500}, {"max_tokens": 9000})` is `{"max_tokens": 500}`. What a client leaves
    out, or sends as null, is the host's to say.
    """
    limits: JsonObject = {}
    for name, limit in LIMITS.items():
        requested = asked.get(name)
        if requested is None:
            continue
        number = _check(name, requested, limit)
        allowed = host.get(name)
        if allowed is None:
            allowed = limit.unset
        limits[name] = number if allowed is None else min(allowed, number)
    return limits


def _check(name: str, given: object, limit: ClientLimit) -> float:
    kinds = int if limit.whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, kinds):
        raise refuse(f"{name} is a {'whole ' if limit.whole else ''}number here")
    if not math.isfinite(given) or given < limit.least:
        raise refuse(f"{name} is a number of at least {limit.least} here")
    return given
