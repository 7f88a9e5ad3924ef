"""Continuation of turns that a provider pauses for a tool of its own, for calls without a loop.

A loop needs none of this: there a paused reply is a turn, and the next one goes on with it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.messages import Message, Opaque
from windlass.models.base import Emit, Holding, Request, Response

MOST: Final = 8  # pauses of one turn; then the reply is given as it is


class PauseContinuation(Holding):
    """A model whose paused turns are continued until they are over.

    The parts are one reply, and what they cost is added up.
    """

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Answer with the whole turn, or with what there is of it after `MOST` pauses."""
        whole = part = await self.model.respond(request, emit)
        left = MOST
        while left and part.stop_reason == "pause_turn" and _is_at_work(part.message):
            left -= 1
            messages = [*request.messages, *request.tail, whole.message]
            part = await self.model.respond(Request(messages, request.frame), emit)
            whole = msgspec.structs.replace(
                part,
                message=Message("assistant", (*whole.message.content, *part.message.content)),
                usage=whole.usage + part.usage,
                asides=(*whole.asides, *part.asides),
                attempts=whole.attempts + part.attempts,
            )
        return whole


def _is_at_work(message: Message) -> bool:
    """Check whether the provider paused amid its own work; text alone is not sent back."""
    return any(type(block) is Opaque for block in message.content)
