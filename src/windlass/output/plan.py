"""Plans for typed answers: how one is requested, read, checked and converted.

The means, the best first: the provider's own schema, a tool that takes the answer as its arguments,
the provider's JSON mode, and instructions. Whichever it was, the reply looks the same: its text is the JSON
as the model wrote it, its `data` the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

import msgspec

from windlass.errors import BadReply, ConfigError, Refused
from windlass.events import LiveEvent, ToolCallReady
from windlass.messages import Block, Message, Text, ToolCall
from windlass.models.base import Emit, Frame, Request, Response
from windlass.models.json_text import json_values
from windlass.models.registry.capabilities import Capabilities, Means
from windlass.models.structured_output import (
    TOOL,
    asking,
    can_force_call,
    free_name,
    means_of,
)
from windlass.output.options import OutputOptions
from windlass.output.schema import WRAPPED, answer_schema, as_object
from windlass.tools.arguments.repair import mend
from windlass.tools.arguments.validate import Checker, at
from windlass.tools.schema.shape import Convert, Json, Mismatch

_AGAIN: Final = "That answer cannot be taken:\n{problems}\nGive the whole answer again, corrected."
_MOST_SAID: Final = 5  # problems in an error's message


class Reading(NamedTuple):
    """A parsed reply: the message as shown, its value, and its problems."""

    response: Response
    data: Any = None
    problems: tuple[str, ...] = ()


class OutputPlan(msgspec.Struct, frozen=True):
    """The shape of an answer, and how it is requested."""

    means: Means
    schema: Json | None = None
    sent: Json | None = None  # the schema as the model sees it
    wrapped: bool = False
    retries: int = 0
    tool: str = TOOL
    forced: bool = True  # the model can be made to use the tool
    demanded: bool = False  # the caller demands a tool call, so that no answer can come
    checker: Any = None  # Checker | None
    convert: Any = None  # Convert | None

    # ----------------------------------------------------------------------- asking

    def add_to_frame(self, frame: Frame) -> Frame:
        """Build the frame that requests the answer."""
        if self.means == "tool" and self.demanded:
            return frame
        return asking(frame, self.means, self.sent, self.tool, force=self.forced)

    def show(self, emit: Emit) -> Emit:
        """Wrap an emit so that it shows nothing that may have to be asked again."""
        if self.retries:
            return _ignore_event

        def emit_visible(event: LiveEvent) -> None:
            if not (isinstance(event, ToolCallReady) and event.call.name == self.tool):
                emit(event)

        return emit_visible if self.means == "tool" else emit

    def again(self, request: Request, reading: Reading) -> Request:
        """Build the request that reports the problems of the last answer."""
        reply = reading.response.message
        if not reply.text.strip():
            reply = Message("assistant", (Text("(no answer)"),))
        more = (reply, Message("user", (Text(self.feedback(reading)),), "feedback"))
        return msgspec.structs.replace(request, messages=(*request.messages, *more))

    def feedback(self, reading: Reading) -> str:
        """Describe to the model the problems of an answer."""
        return _AGAIN.format(problems="\n".join(f"- {line}" for line in reading.problems))

    # ----------------------------------------------------------------------- reading

    def in_words(self, response: Response) -> Response:
        """Return the reply as shown, checked or not; drop an answer beside other calls."""
        given, others = self._split(response.message)
        if not given:
            return response
        if any(isinstance(block, ToolCall) for block in others):
            return msgspec.structs.replace(response, message=Message("assistant", others))
        return self._in_words(Reading(response), given, others)

    def read(self, response: Response) -> Reading:
        """Return the reply as shown, and its value or its problems."""
        given, others = self._split(response.message)
        if others:
            message = Message("assistant", others) if given else response.message
            if any(isinstance(block, ToolCall) for block in others):
                return Reading(msgspec.structs.replace(response, message=message))
        if response.stop_reason == "refusal":
            text = response.message.text.strip() or "the model refused to answer"
            raise Refused(text, provider=response.provider, model=response.model)
        values = (
            self._values_of_calls(given) if given else self._values_of_text(response.message.text)
        )
        reading = self._first_that_fits(response, values)
        if given:
            reading = reading._replace(response=self._in_words(reading, given, others))
        if reading.problems and response.stop_reason == "max_tokens":
            cut = "answer: was cut off at max_tokens; allow more, or ask for less"
            return reading._replace(problems=(cut, *reading.problems))
        return reading

    def _split(self, message: Message) -> tuple[list[ToolCall], tuple[Block, ...]]:
        """Split a message into the calls that are the answer, and everything else."""
        if self.means != "tool":
            return [], message.content
        given = [call for call in message.tool_calls if call.name == self.tool]
        return given, tuple(block for block in message.content if block not in given)

    def _in_words(
        self, reading: Reading, given: list[ToolCall], others: tuple[Block, ...]
    ) -> Response:
        """Rewrite an answer by tool call as text: a transcript has no unanswered call."""
        first = given[0]
        text = first.raw if first.raw is not None else _to_json(first.arguments)
        beside = tuple(block for block in others if not isinstance(block, Text))
        message = Message("assistant", (*beside, Text(text)))
        reason = reading.response.stop_reason
        reason = "end_turn" if reason == "tool_use" else reason
        return msgspec.structs.replace(reading.response, message=message, stop_reason=reason)

    def _values_of_calls(self, given: list[ToolCall]) -> Iterator[Any]:
        for call in given:
            if call.raw is None:
                yield call.arguments
            else:
                yield from json_values(call.raw)

    def _values_of_text(self, text: str) -> Iterator[Any]:
        yield from json_values(text)
        if self.checker is not None and text.strip():
            yield _Bare(text.strip())  # a text without quotes

    def _first_that_fits(self, response: Response, values: Iterator[Any]) -> Reading:
        problems: tuple[str, ...] = ()
        for value in values:
            bare = isinstance(value, _Bare)
            for form in self._forms(str(value) if bare else value):
                found = self._fit(form)
                if not found.problems:
                    return Reading(response, found.data)
                if not problems and not bare:
                    problems = found.problems
        return Reading(response, None, problems or (_no_json(response),))

    def _forms(self, value: Any) -> Iterator[Any]:
        """Yield the value without its wrapping, and as it is: a model may omit the wrapping."""
        if self.wrapped and isinstance(value, dict) and WRAPPED in value:
            yield cast("Json", value)[WRAPPED]
        yield value

    def _fit(self, value: Any) -> _Fit:
        checker = cast("Checker | None", self.checker)
        if checker is None or self.schema is None:
            return _Fit(value)
        problems = checker.problems(value)
        if problems:
            try:
                mended, notes = mend(value, self.schema)
            except RecursionError:
                mended, notes = value, ()
            if not notes or checker.problems(mended):
                return _Fit(
                    None, tuple(line.replace("arguments", "answer", 1) for line in problems)
                )
            value = mended
        return _convert_value(value, cast("Convert | None", self.convert))

    def to_error(self, reading: Reading, attempts: int) -> BadReply:
        """Build the error for an answer that does not fit."""
        response, problems = reading.response, reading.problems
        listed = "; ".join(problems[:_MOST_SAID]) + ("; …" if len(problems) > _MOST_SAID else "")
        often = f" after {attempts} attempts" if attempts > 1 else ""
        what = "is no JSON" if self.schema is None else "does not fit the schema"
        fix = "" if self.retries else " (schema_retries=2 asks the model again)"
        return BadReply(
            f"the answer {what}{often}: {listed}{fix}",
            provider=response.provider,
            model=response.model,
            body=response.message.text,
        )


class _Fit(NamedTuple):
    data: Any
    problems: tuple[str, ...] = ()


class _Bare(str):
    """Text that may be meant as a JSON string."""


def _ignore_event(_event: LiveEvent) -> None:
    """Ignore the event."""


def _convert_value(value: Any, convert: Convert | None) -> _Fit:
    if convert is None:
        return _Fit(value)
    try:
        return _Fit(convert(value))
    except Mismatch as error:
        lines = [at(path, message) for path, message in error.found]
    except Exception as error:  # a type of the user's own may raise anything
        lines = [at((), f"{type(error).__name__}: {error}")]
    return _Fit(None, tuple(line.replace("arguments", "answer", 1) for line in lines))


def _no_json(response: Response) -> str:
    text = response.message.text.strip()
    return f"answer: is no JSON: {text[:120]!r}" if text else "answer: is empty"


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --------------------------------------------------------------------------- from options


def plan_output(options: OutputOptions, caps: Capabilities, frame: Frame) -> OutputPlan | None:
    """Plan how an answer is requested; None if it is taken as it comes."""
    given, form = options.schema, options.response_format
    if given is None:
        if form != "json":
            if options.schema_retries:
                raise ConfigError("schema_retries needs a schema, or response_format='json'")
            return None
        means: Means = "json" if "json" in caps.structured else "prompt"
        return OutputPlan(means, retries=options.schema_retries)
    if form == "text":
        raise ConfigError("a schema asks for JSON: leave response_format='text' out")
    schema, convert = answer_schema(given)
    checker = Checker(schema, "schema")
    means = means_of(caps, frame, as_object(schema)[0])
    sent, wrapped = (schema, False) if means == "prompt" else as_object(schema)
    return OutputPlan(
        means,
        schema,
        sent,
        wrapped,
        options.schema_retries,
        free_name(frame),
        can_force_call(caps, frame),
        frame.settings.tool_choice == "required" or isinstance(frame.settings.tool_choice, dict),
        checker,
        convert,
    )
