"""The option `scratchpad`: working memory of a session."""

from __future__ import annotations

from typing import Annotated, Any

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.models.base import Model
from windlass.options.checks import boolean, number, optional, text
from windlass.options.group import Option, OptionGroup, OptionStruct, struct
from windlass.policies.model_check import check_model
from windlass.policies.scratchpad.pad import as_data, read_pad


def _check_initial(name: str, value: Any) -> JsonObject | None:
    return as_data(read_pad(value, name))


class Reorganizer(OptionStruct, frozen=True, kw_only=True):
    """The model that rewrites the scratchpad: `Reorganizer(model="openai:gpt-5-mini")`."""

    provider: Annotated[str | None, Option(optional(text))] = None
    """The provider of its model."""
    model: Annotated[str | Model | None, Option(check_model)] = None
    """Its model; None: the model of the run."""


class Scratchpad(OptionStruct, frozen=True, kw_only=True):
    """The working memory of a session: `Scratchpad(reorganize_every=2)`."""

    enabled: Annotated[bool, Option(boolean)] = True
    """Whether the session has one."""
    recite: Annotated[bool, Option(boolean)] = True
    """Whether it is shown at the end of every request."""
    reorganize_every: Annotated[int, Option(number(0, whole=True))] = 3
    """Turns after which it is rewritten; 0: never."""
    max_recent_messages: Annotated[int, Option(number(0, 1_000, whole=True))] = 8
    """How many of the last messages the reorganizer sees and may cite."""
    schema_retries: Annotated[int, Option(number(0, 10, whole=True))] = 1
    """Retries when the answer is not a scratchpad."""
    initial: Annotated[JsonObject | None, Option(optional(_check_initial))] = None
    """The first scratchpad; None: the task is its only goal."""
    reorganizer: Annotated[Reorganizer | None, Option(struct(Reorganizer, flag=False))] = None
    """The model that rewrites it."""


_check_struct = struct(Scratchpad)


def _check_scratchpad(name: str, value: Any) -> Scratchpad | None:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        raise ConfigError(f"{name} is True, False, a dict or a Scratchpad, not {safe_repr(value)}")
    return _check_struct(name, value)


class ScratchpadOptions(OptionGroup, frozen=True, kw_only=True):
    """Scratchpad: working memory of the model."""

    scratchpad: Annotated[
        Scratchpad | None,
        Option(_check_scratchpad, accepts="bool | dict[str, Any] | Scratchpad | None"),
    ] = None
    """Keep goals, findings and open questions beside the conversation."""
