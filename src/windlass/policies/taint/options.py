"""The option `taint`: what a session may touch before somebody is asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from windlass.options.checks import boolean, one_of
from windlass.options.group import Option, OptionGroup, OptionStruct, struct


class Taint(OptionStruct, frozen=True, kw_only=True):
    """What becomes of the third leg: `taint={"mode": "refuse", "trust_prompt": False}`."""

    mode: Annotated[Literal["ask", "refuse"], Option(one_of("ask", "refuse"))] = "ask"
    """Whether somebody is asked, or the call is refused."""
    trust_prompt: Annotated[bool, Option(boolean)] = True
    """Whether calls run whose arguments are the caller's own words."""
    unlabelled: Annotated[
        Literal["cautious", "harmless"], Option(one_of("cautious", "harmless"))
    ] = "cautious"
    """What is thought of tools that say nothing of this."""


_check_struct = struct(Taint)


def _check_taint(name: str, value: Any) -> Taint | bool | None:
    return False if value is False else _check_struct(name, value)


class TaintOptions(OptionGroup, frozen=True, kw_only=True):
    """What a session may touch before somebody is asked."""

    taint: Annotated[
        Taint | Literal[False] | None,
        Option(_check_taint, accepts="bool | dict[str, Any] | Taint | None"),
    ] = None
    """Follow untrusted and private content; on by itself where a tool carries labels."""
