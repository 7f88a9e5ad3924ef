"""`/no_think`: text that turns thinking off where a model has no switch for it.

The text stands behind every user message, not only the last one, so that a message has the same
bytes in every request; such models follow the last one they read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.json_types import JsonObject
from windlass.messages import Message, Text
from windlass.models.base import Request, derive
from windlass.models.registry.capabilities import Capabilities

WORDS: Final = "/no_think"


def thinks_not(asked: bool | JsonObject | None) -> bool:
    """Check whether `settings.thinking` asks for no thinking at all."""
    if not isinstance(asked, dict):
        return asked is False
    off = (asked.get("mode"), asked.get("type"))  # the second is the key in Claude's own dict
    return "disabled" in off or asked.get("effort") == "none"


def told_not_to_think(request: Request, caps: Capabilities) -> Request:
    """Append `/no_think` to user messages where the model needs it and thinking is off."""
    if caps.lowering != "no_think" or not thinks_not(request.frame.settings.thinking):
        return request
    return Request(
        derive(request.messages, "no_think", append_no_think),
        request.frame,
        tuple([append_no_think(message) for message in request.tail]),
    )


def append_no_think(message: Message) -> Message:
    """Append the text to a user's message: `"Why?"` -> `"Why? /no_think"`."""
    if message.role != "user" or message.text.rstrip().endswith(WORDS):
        return message
    content = list(message.content)
    for at in range(len(content) - 1, -1, -1):
        if type(block := content[at]) is Text:
            content[at] = Text(f"{block.text} {WORDS}".lstrip())
            break
    else:
        content.append(Text(WORDS))
    return msgspec.structs.replace(message, content=tuple(content))
