"""Tool searches within a single call: the model is called until it has its tools.

To the outside it is one model and one reply. Costs are summed; the searches are events.
"""

from __future__ import annotations

import msgspec

from windlass.events import JournalEntry, LiveEvent, ToolCallReady
from windlass.loop.reply import accept_reply
from windlass.messages import Message, ToolCall, ToolResult
from windlass.models.base import Aside, Emit, Frame, Holding, Model, Request, Response
from windlass.models.estimates import fill_usage
from windlass.models.meter import begin_request, carry_reply
from windlass.policies.tool_search.plan import ToolSearchPlan
from windlass.policies.tool_search.policy import search_entries, searched_natively
from windlass.tools.arguments.validate import unparsable
from windlass.tools.search.deferred import Vault
from windlass.usage import NO_USAGE

MOST_ROUNDS = 8  # of searching; then the search is taken away, and the model answers as it can


class Searching(Holding):
    """A model with deferred tools, for one call."""

    def __init__(self, model: Model, disclosure: ToolSearchPlan) -> None:
        super().__init__(model)
        self.disclosure = disclosure
        self.promoted: tuple[str, ...] = ()
        self.events: list[JournalEntry] = []

    async def respond(self, request: Request, emit: Emit) -> Response:
        vault = self.disclosure.vault
        if vault is None:
            response = await self.model.respond(request, emit)
            names = [tool.name for tool in self.disclosure.tools]
            for pair in searched_natively(response.message, names):
                self.events += pair
            return response
        return await self._search(vault, request, emit)

    async def _search(self, vault: Vault, request: Request, emit: Emit) -> Response:
        self.promoted = self.promoted or _called_tools(vault, request)
        ids = {call.id for message in request.messages for call in message.tool_calls}
        messages, visible = tuple(request.messages), _without(vault.tool.name, emit)
        usage, attempts, left = NO_USAGE, 0, MOST_ROUNDS
        asides: tuple[Aside, ...] = ()
        while True:
            frame = self._build_frame(vault, request.frame, searching=left > 0)
            asked = Request(messages, frame, request.tail)
            if left < MOST_ROUNDS:
                asked = await begin_request(self.model, asked)
            response = accept_reply(await self.model.respond(asked, visible), ids)
            response = fill_usage(self.model, asked, response)
            usage, attempts = usage + response.usage, attempts + response.attempts
            asides += response.asides
            calls = response.message.tool_calls
            if left == 0 or not calls or any(call.name != vault.tool.name for call in calls):
                break
            carry_reply(self.model, asked, response)
            results = tuple([await self._answer(vault, call) for call in calls])
            messages, left = (*messages, response.message, Message("tool", results)), left - 1
        message = _without_searches(vault, response.message)
        return msgspec.structs.replace(
            response, message=message, usage=usage, attempts=attempts, asides=asides
        )

    def _build_frame(self, vault: Vault, frame: Frame, *, searching: bool) -> Frame:
        found = tuple(vault.specs[name] for name in self.promoted)
        if searching:
            tools = frame.tools if vault.by_provider else (*frame.tools, *found)
            return Frame(frame.system, tools, frame.settings)
        hidden = {vault.tool.name, *vault.deferred}
        tools = (*(spec for spec in frame.tools if spec.name not in hidden), *found)
        settings = msgspec.structs.replace(frame.settings, tool_search=None)
        return Frame(frame.system, tools, settings)

    async def _answer(self, vault: Vault, call: ToolCall) -> ToolResult:
        problems = (
            (unparsable(call.raw),)
            if call.raw is not None
            else vault.tool.prepare(call.arguments).problems
        )
        if problems:
            text = "\n".join(("The arguments are not valid:", *problems))
            return ToolResult(call.id, text, True, call.name, "invalid")
        arguments = call.arguments
        found = await vault.find(arguments["query"], arguments.get("limit"))
        promotion = vault.promote(self.promoted, found)
        self.promoted = promotion.promoted
        self.events += search_entries(vault, call, promotion)
        return ToolResult(call.id, vault.render_result(promotion.found), name=call.name)


def _called_tools(vault: Vault, request: Request) -> tuple[str, ...]:
    """Return the deferred tools that an earlier call had found and used."""
    names = [call.name for message in request.messages for call in message.tool_calls]
    return tuple(dict.fromkeys(name for name in names if name in vault.deferred))


def _without_searches(vault: Vault, message: Message) -> Message:
    """Remove searches from the reply: only this wrapper can answer them."""
    content = tuple(
        block
        for block in message.content
        if not isinstance(block, ToolCall) or block.name != vault.tool.name
    )
    if len(content) == len(message.content):
        return message
    return msgspec.structs.replace(message, content=content)


def _without(name: str, emit: Emit) -> Emit:
    def pass_on(event: LiveEvent) -> None:
        if not isinstance(event, ToolCallReady) or event.call.name != name:
            emit(event)

    return pass_on
