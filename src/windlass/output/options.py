"""The options of answers: of which type, from which schema, in which form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.options.checks import number, one_of, optional
from windlass.options.group import AGENTS, CALLS, Option, OptionGroup
from windlass.output.schema import answer_schema


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
    schema: Annotated[Any, Option(_check_output, doors=CALLS, scope="start")] = None
    """The schema of the answer: a JSON Schema or a type. The value is `result.data`."""
    response_format: Annotated[
        Literal["text", "json"] | None,
        Option(optional(one_of("text", "json")), doors=CALLS, scope="start", in_file=False),
    ] = None
    """Whether the answer is JSON. The value is `result.data`."""
    schema_retries: Annotated[int, Option(number(0, 100, whole=True), doors=CALLS)] = 0
    """Retries of an answer that does not fit the schema."""
    transcript: Annotated[
        JsonObject | None,
        Option(
            optional(_check_transcript),
            doors=CALLS,
            scope="start",
            accepts="Mapping[str, Any] | None",
            in_file=False,
        ),
    ] = None
    """The transcript of an earlier call or run, which this one continues."""

    @property
    def asks(self) -> bool:
        """Whether an answer of a certain shape is asked for."""
        given = (self.output, self.schema, self.response_format == "json" or None)
        return any([one is not None for one in given])
