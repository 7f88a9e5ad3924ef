"""The options of the scratchpad, and the policy that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.loop.policy import Policy
from windlass.models.base import Model
from windlass.options.checks import (
    boolean,
    check_struct,
    number,
    optional,
    text,
)
from windlass.options.prompts import words_of
from windlass.policies.build import About


class Reorganizer(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes the scratchpad anew: `Reorganizer(provider="ollama", model="devstral-small-2")`."""

    provider: str | None = None
    model: str | Model | None = None  # the loop's own


class Scratchpad(msgspec.Struct, frozen=True, kw_only=True):
    """Working memory of a session: `Scratchpad(reorganize_every=2)`."""

    enabled: bool = True
    recite: bool = True  # said at the tail of every request
    reorganize_every: int = 3  # continuing turns; 0 is never
    max_recent_messages: int = 8  # that the reorganiser is shown, and may cite
    schema_retries: int = 1  # for an answer that is no scratchpad
    initial: dict[str, Any] | None = None  # None: the task is the one goal
    reorganizer: Reorganizer | None = None


class ScratchpadOptions(TypedDict, total=False):
    """Working memory that is recited."""

    scratchpad: bool | dict[str, Any] | Scratchpad


def _initial(name: str, value: Any) -> dict[str, Any] | None:
    from windlass.policies.scratchpad.pad import as_data, read_pad

    return as_data(read_pad(value, name))


def _model(name: str, value: Any) -> Any:
    if value is None or isinstance(value, Model):
        return value
    return text(name, value)


_fields: Callable[[str, Any], Any] = check_struct(
    Scratchpad,
    {
        "enabled": boolean,
        "recite": boolean,
        "reorganize_every": number(0, whole=True),
        "max_recent_messages": number(0, 1_000, whole=True),
        "schema_retries": number(0, 10, whole=True),
        "initial": optional(_initial),
        "reorganizer": check_struct(
            Reorganizer, {"provider": optional(text), "model": _model}, flag=False
        ),
    },
)


def _scratchpad(name: str, value: Any) -> Scratchpad | None:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        raise ConfigError(f"{name} is True, False, a dict or a Scratchpad, not {safe_repr(value)}")
    return _fields(name, value)


CHECKS: dict[str, Callable[[str, Any], Any]] = {"scratchpad": _scratchpad}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    wanted: Scratchpad | None = about.options.get("scratchpad")
    if wanted is None or not wanted.enabled:
        return []
    from windlass.policies.scratchpad.pad import read_pad
    from windlass.policies.scratchpad.policy import Scratchpads
    from windlass.policies.scratchpad.render import SYSTEM

    writer = wanted.reorganizer or Reorganizer()
    other = writer.provider is not None or writer.model is not None
    return [
        Scratchpads(
            recite=wanted.recite,
            every=wanted.reorganize_every,
            recent=wanted.max_recent_messages,
            retries=wanted.schema_retries,
            initial=None if wanted.initial is None else read_pad(wanted.initial),
            model=about.named(writer.provider, writer.model) if other else None,
            system=words_of(about.options, "agent.scratchpad_system", SYSTEM),
        )
    ]
