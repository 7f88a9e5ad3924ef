"""A model that takes requests built for another, without the other's special features."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.json_types import JsonObject
from windlass.models.base import Emit, Frame, Holding, Model, Request, Response, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.claude import open_object

#: How a model is asked for JSON that its provider cannot hold it to.
IN_WORDS: Final = (
    "Answer with one JSON value that fits this JSON Schema and with nothing else, "
    "no words around it and no code fence:\n{schema}"
)


class AdaptedModel(Holding):
    """`AdaptedModel(claude, like=gpt)` answers requests that were built for `gpt`."""

    def __init__(self, model: Model, like: Model) -> None:
        super().__init__(model)
        self.same_provider = model.provider == like.provider
        self._last: tuple[Frame, Frame] | None = None

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the model with a frame that it understands."""
        frame = self._frame(request.frame)
        if frame is not request.frame:
            request = msgspec.structs.replace(request, frame=frame)
        return await self.model.respond(request, emit)

    def _frame(self, frame: Frame) -> Frame:
        last = self._last
        if last is not None and last[0] is frame:
            return last[1]  # the same object again: wires keep what they made of it
        fitted = self._fit(frame)
        self._last = (frame, fitted)
        return fitted

    def _fit(self, frame: Frame) -> Frame:
        settings, caps = frame.settings, self.model.capabilities
        left: JsonObject = {}
        if not self.same_provider and settings.extra is not None:
            left["extra"] = None
        if settings.beta is not None and caps.lowering != "claude":
            left["beta"] = None
        if settings.tool_search is not None and settings.tool_search not in caps.tool_search:
            left["tool_search"] = None  # all tools are shown then
        schema = settings.schema
        if schema is not None and not takes_schema(caps, schema, bool(frame.tools)):
            left["schema"] = None
            instruction = IN_WORDS.format(schema=msgspec.json.encode(schema).decode())
            system = f"{frame.system}\n\n{instruction}" if frame.system else instruction
            return Frame(system, frame.tools, _without(settings, left))
        if settings.response_format is not None and "json" not in caps.structured:
            left["response_format"] = None  # the text that goes with it stays
        if not left:
            return frame
        return Frame(frame.system, frame.tools, _without(settings, left))


def takes_schema(caps: Capabilities, schema: JsonObject, tools: bool) -> bool:
    """Check whether the provider can enforce this schema."""
    if "schema" not in caps.structured or (tools and not caps.schema_beside_tools):
        return False
    return caps.open_schemas or open_object(schema) is None


def _without(settings: Settings, left: JsonObject) -> Settings:
    return msgspec.structs.replace(settings, **left)
