"""Interactive chats: `agent_chat_loop`, its inputs, and lines from a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.chat.input import ChatCommand as ChatCommand
    from windlass.chat.input import agent_chat_route_input as agent_chat_route_input
    from windlass.chat.line import InputLine as InputLine
    from windlass.chat.line import read_line as read_line
    from windlass.chat.loop import ChatResult as ChatResult
    from windlass.chat.loop import agent_chat_loop as agent_chat_loop
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "ChatCommand": "chat.input",
            "ChatResult": "chat.loop",
            "InputLine": "chat.line",
            "agent_chat_loop": "chat.loop",
            "agent_chat_route_input": "chat.input",
            "read_line": "chat.line",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "ChatCommand",
    "ChatResult",
    "InputLine",
    "agent_chat_loop",
    "agent_chat_route_input",
    "read_line",
]
