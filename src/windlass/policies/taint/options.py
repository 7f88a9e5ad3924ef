"""The option `taint`, and the policy that it, or a tool's labels, ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from windlass.access.taint import labels_of
from windlass.loop.policy import Policy
from windlass.options.checks import boolean, check_struct, late, one_of
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from windlass.policies.taint.policy import Taint


class TaintOptions(TypedDict, total=False):
    """What a session may touch before somebody is asked."""

    taint: bool | dict[str, Any] | Taint


@late
def _fields() -> Callable[[str, Any], Any]:
    from windlass.policies.taint.policy import Taint

    fields = {
        "mode": one_of("ask", "refuse"),
        "trust_prompt": boolean,
        "unlabelled": one_of("cautious", "harmless"),
    }
    return check_struct(Taint, fields)


def _taint(name: str, value: Any) -> Taint | bool:
    return False if value is False else _fields(name, value)


CHECKS: dict[str, Callable[[str, Any], Any]] = {"taint": _taint}


def policies(options: Mapping[str, Any], tools: Sequence[Tool]) -> list[Policy[Any]]:
    """On where somebody asks for it, or a tool carries labels; off where somebody says so."""
    rules = options.get("taint")
    if rules is False:
        return []
    if rules is None and not any([labels_of(tool.annotations) is not None for tool in tools]):
        return []
    from windlass.policies.taint.policy import Taint, ThirdLeg

    return [ThirdLeg(rules or Taint())]
