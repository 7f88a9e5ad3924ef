"""A run whose last answer is a value: requested by the best means, and checked.

The model is told the problems of an answer that does not fit, and the run goes on within its limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import msgspec

from windlass.errors import ConfigError
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Stop
from windlass.messages import Message, Text
from windlass.models.base import Emit, Frame, Holding, Model, Request, Response, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.output.options import OutputOptions
from windlass.output.partial_schema import PartialSchema
from windlass.output.partial_view import PartialView
from windlass.output.plan import OutputPlan, Reading, plan_output
from windlass.output.protocol import Answering
from windlass.policies.completion import visible
from windlass.policies.facts import tally
from windlass.tools.tool import Tool
from windlass.usage import NO_USAGE


class TypedAnswer(Answering):
    """Keeps a run from finishing before its answer fits."""

    def __init__(self, wanted: OutputPlan, kind: Any, retries: int | None = None) -> None:
        self.wanted, self.kind = wanted, kind
        self.retries = retries  # None: as long as the run has turns

    @property
    def nothing(self) -> Reading:
        return self.read(Message("assistant"), "end_turn", None)

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> KeepGoing | Stop | None:
        if turn.stop_reason == "refusal":
            return None  # a retry would not help; the result shows that there is no answer
        sentinel = (run.plan.metadata or {}).get("sentinel")
        reading = self.read(turn.message, turn.stop_reason, sentinel)
        if not reading.problems:
            return None
        asked_again = tally(run).told["output"]
        if self.retries is not None and asked_again >= self.retries:
            error = self.wanted.to_error(reading, asked_again + 1)
            words = {"category": error.category, "kind": "BadReply", "message": str(error)}
            return Stop("failed", "schema_retries", words)
        run.say(self.wanted.feedback(reading), "output")
        return KeepGoing("output")

    def read(self, message: Message, stop_reason: str, sentinel: str | None) -> Reading:
        if message.tool_calls:
            return Reading(Response(message, NO_USAGE), None, ("answer: has not been given yet",))
        if stop_reason == "refusal":
            return Reading(Response(message, NO_USAGE), None, ("answer: the model refused it",))
        text = visible(message.text, sentinel)
        answer = Message("assistant", (Text(text),))
        return self.wanted.read(Response(answer, NO_USAGE, cast("Any", stop_reason)))

    @cached_property
    def _partial_schema(self) -> PartialSchema:
        return PartialSchema(self.wanted.sent or {})

    def build_partial_view(self, sentinel: str | None) -> PartialView:
        """Build the view of the answer while it is being written."""
        wanted = self.wanted

        def read(message: Message, stop_reason: str) -> Reading:
            return self.read(message, stop_reason, sentinel)

        return PartialView(self._partial_schema, read, tool=wanted.tool, wrapped=wanted.wrapped)

    def wrap(self, model: Model) -> Model:
        """Return the model as answers of this kind need it."""
        return InWords(model, self.wanted) if self.wanted.means == "tool" else model

    def build_frame(
        self,
        system: str | None,
        tools: Sequence[Tool],
        offered: tuple[Any, ...] | None,
        settings: Settings,
    ) -> Frame:
        """Build the frame that requests such an answer."""
        specs = tuple(tool.spec for tool in tools) if offered is None else offered
        frame = self.wanted.add_to_frame(Frame(system, specs, settings))
        if self.wanted.means != "tool" or not self.wanted.forced or settings.tool_choice == "none":
            return frame
        # not this one by its name: a policy may bring tools that are to be used before it
        choice = msgspec.structs.replace(frame.settings, tool_choice="required")
        return msgspec.structs.replace(frame, settings=choice)


class InWords(Holding):
    """A model whose answer by tool call is rewritten as text, as no result follows it."""

    def __init__(self, model: Model, wanted: OutputPlan) -> None:
        super().__init__(model)
        self.wanted = wanted

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the model and rewrite its answer as text."""
        response = await self.model.respond(request, self.wanted.show(emit))
        return self.wanted.in_words(response)


def build_typed_answer(
    options: OutputOptions,
    retries: int | None,
    caps: Capabilities,
    tools: Sequence[Tool],
    settings: Settings,
    *,
    among_words: bool,
) -> TypedAnswer:
    """Build the policy for answers as they are asked for; None: they are taken as they come.

    `retries`: how often one that does not fit is asked for again; None: within the limits of the run.
    `among_words`: replies hold more than the answer.
    """
    kind = _choose_kind(options)
    if isinstance(settings.tool_choice, dict):
        raise ConfigError(
            "tool_choice demands the same call in every turn, so that no typed output can come"
        )
    if among_words:
        caps = msgspec.structs.replace(caps, structured=())
    frame = Frame(None, tuple(tool.spec for tool in tools), settings)
    wanted = OutputOptions(schema=kind, response_format=options.response_format)
    asked = plan_output(wanted, caps, frame)
    assert asked is not None
    # a run may demand calls in every turn: the answer is one
    return TypedAnswer(msgspec.structs.replace(asked, demanded=False), kind or dict, retries)


def _choose_kind(options: OutputOptions) -> Any:
    if options.output is not None and options.schema is not None:
        raise ConfigError("output and schema both say what an answer is: give one of them")
    return options.schema if options.output is None else options.output
