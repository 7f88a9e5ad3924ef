"""The option `taint`: when a call that untrusted content may have caused needs somebody's yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from windlass.access.flow.labels import TRUSTS, Trust
from windlass.access.flow.roles import ROLES, Role
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import is_mapping
from windlass.options.checks import boolean, one_of
from windlass.options.group import Option, OptionGroup, OptionStruct, struct


def _check_roles(name: str, value: object) -> Mapping[str, Mapping[str, Role]]:
    shape = f"{name} is a dict such as {{'send_mail': {{'to': 'target'}}}}"
    if not is_mapping(value):
        raise ConfigError(f"{shape}, not {safe_repr(value)}")
    for tool, roles in value.items():
        if not is_mapping(roles):
            raise ConfigError(f"{shape}: {tool!r} has {safe_repr(roles)}")
        for argument, role in roles.items():
            if role not in ROLES:
                raise ConfigError(
                    f"{name}: the role of {tool}.{argument} is one of {', '.join(ROLES)}, "
                    f"not {safe_repr(role)}"
                )
    return value


def _check_results(name: str, value: object) -> Mapping[str, Trust | Mapping[str, Trust]]:
    shape = f"{name} is a dict such as {{'search': 'untrusted', 'login': {{'key': 'secret'}}}}"
    if not is_mapping(value):
        raise ConfigError(f"{shape}, not {safe_repr(value)}")
    for tool, trust in value.items():
        for one in trust.values() if is_mapping(trust) else (trust,):
            if one not in TRUSTS:
                raise ConfigError(f"{shape}: {tool!r} has {safe_repr(one)}")
    return value


class Taint(OptionStruct, frozen=True, kw_only=True):
    """Settings of flow control: `taint={"mode": "refuse", "trust_prompt": False}`."""

    mode: Annotated[Literal["ask", "refuse"], Option(one_of("ask", "refuse"))] = "ask"
    """Whether a person is asked, or the call is refused."""
    trust_prompt: Annotated[bool, Option(boolean)] = True
    """Whether values in the user's words have a trusted origin."""
    unlabelled: Annotated[
        Literal["cautious", "harmless"], Option(one_of("cautious", "harmless"))
    ] = "cautious"
    """How tools without labels are treated."""
    roles: Annotated[Mapping[str, Mapping[str, Role]], Option(_check_roles)] = {}
    """Roles of arguments; they override the tool's: tool -> argument -> role."""
    results: Annotated[Mapping[str, Trust | Mapping[str, Trust]], Option(_check_results)] = {}
    """Labels of results; they override the tool's: tool -> label, or tool -> field -> label."""


_check_struct = struct(Taint)


def _check_taint(name: str, value: Any) -> Taint | bool | None:
    return False if value is False else _check_struct(name, value)


class TaintOptions(OptionGroup, frozen=True, kw_only=True):
    """Flow control against prompt injection."""

    taint: Annotated[
        Taint | Literal[False] | None,
        Option(_check_taint, accepts="bool | dict[str, Any] | Taint | None"),
    ] = None
    """Ask before a call acts on untrusted content. On by default with an untrusted source."""
