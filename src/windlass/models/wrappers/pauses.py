"""A turn that pauses for a tool of the provider's own, for those who ask without a loop: it goes on.

A loop needs none of this: there a paused reply is a turn, and the next one goes on with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from windlass.messages import Message, Opaque
from windlass.models.base import Request, Response

MOST: Final = 8  # pauses of one turn; then the reply is given as it is


async def through_pauses(
    request: Request, ask: Callable[[Request], Awaitable[Response]], most: int = MOST
) -> Response:
    """Ask, and again for as long as the reply is a pause: what was said goes back unchanged.

    The parts are one reply, and what they cost is added up.
    """
    whole = part = await ask(request)
    while most and part.stop_reason == "pause_turn" and _is_at_work(part.message):
        most -= 1
        said = [*request.messages, *request.tail, whole.message]
        part = await ask(Request(said, request.frame))
        whole = msgspec.structs.replace(
            part,
            message=Message("assistant", (*whole.message.content, *part.message.content)),
            usage=whole.usage + part.usage,
            asides=(*whole.asides, *part.asides),
            attempts=whole.attempts + part.attempts,
        )
    return whole


def _is_at_work(message: Message) -> bool:
    """Whether the provider has something to go on with: words alone would be put in its mouth."""
    return any(type(block) is Opaque for block in message.content)
