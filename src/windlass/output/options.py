"""The options of answers: of which type, from which schema, in which form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.options.checks import anything, number, one_of, optional
from windlass.options.group import AGENTS, CALLS, Door, Option, OptionGroup
from windlass.output.schema import answer_schema

_CALL: Final[frozenset[Door]] = frozenset({"call"})


def _check_output(name: str, value: Any) -> Any:
    if value is None or value is str:
        return None
    answer_schema(value, name)
    return value


def _check_transcript(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict like reply.transcript, not {safe_repr(value)}")
    return cast("Mapping[str, Any]", value)


class OutputOptions(OptionGroup, frozen=True, kw_only=True):
    """Structured output, and the transcript to continue."""

    output: Annotated[Any, Option(_check_output, doors=AGENTS, scope="start")] = None
    """The type of an agent's answer, or a JSON Schema."""
    schema: Annotated[Any, Option(anything, doors=_CALL)] = None
    """The schema of the answer of a single call: a type or a JSON Schema."""
    response_format: Annotated[
        Literal["text", "json"] | None, Option(optional(one_of("text", "json")), doors=_CALL)
    ] = None
    """Whether the answer is JSON."""
    schema_retries: Annotated[int, Option(number(0, 100, whole=True), doors=CALLS)] = 0
    """How often an answer that does not fit is asked for again."""
    transcript: Annotated[
        JsonObject | None,
        Option(optional(_check_transcript), doors=_CALL, accepts="Mapping[str, Any] | None"),
    ] = None
    """The transcript of a call before, which this one goes on from."""
