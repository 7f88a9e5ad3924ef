"""A chat loop with commands: the model waits for the user, and a later chat goes on with the session.

    python examples/chat_loop.py               a conversation of its own
    python examples/chat_loop.py --talk        you talk: one line, one turn; /seen lists the answers

With `WINDLASS_MODEL=anthropic:claude-sonnet-4-5` (and a key) a real model answers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import windlass as w
from windlass.testing import call, scripted


def list_answers(request: w.ChatCommand) -> dict[str, Any]:
    return {"kind": "handled", "message": f"seen: {request.state.get('answers', [])}"}


def leave(request: w.ChatCommand) -> dict[str, Any]:
    return {"kind": "exit", "reason": "done"}


ROUTES = {"/seen": list_answers, "/exit": leave}


def show_turn(turn: w.LoopResult, state: dict[str, Any]) -> dict[str, Any]:
    """Print the answer, and keep it in the state of the chat."""
    print(f"{turn.visible_text} [{turn.stop_reason}]")
    return {"state": {"answers": [*state.get("answers", []), turn.visible_text]}}


async def talk() -> None:
    """Chat with whoever types, until the input is closed."""

    async def on_user_input(state: dict[str, Any]) -> Any:
        line = await w.read_line()
        if not line.ok:
            return {"kind": "exit", "reason": line.status}
        return w.agent_chat_route_input(line.value, state, ROUTES)

    model = os.environ.get("WINDLASS_MODEL") or scripted(then="I hear you.")
    await w.agent_chat_loop(model=model, on_user_input=on_user_input, on_model_turn=show_turn)


async def chat(model: w.Model, *lines: str) -> w.ChatResult:
    """Chat with somebody who types these lines and leaves."""
    left = [*lines]

    def on_user_input(state: dict[str, Any]) -> Any:
        line = left.pop(0) if left else "/exit"
        return w.agent_chat_route_input(line, state, ROUTES)

    return await w.agent_chat_loop(
        model=model, session_id="cake", on_user_input=on_user_input, on_model_turn=show_turn
    )


async def show() -> None:
    model = scripted(
        ("Which cake?", call("wait_for_user")), "Apple: done.", "You ordered an apple cake."
    )
    await chat(model, "A cake, please.", "Apple.", "/sene")
    result = await chat(model, "/seen", "What did I order?")
    print(f"{result.stop_reason} after {len(result.state['answers'])} answers")


if __name__ == "__main__":
    asyncio.run(talk() if "--talk" in sys.argv else show())
