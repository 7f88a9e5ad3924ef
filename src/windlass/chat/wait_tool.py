"""The turns of a chat: on record as such, and ended by the tool `wait_for_user`."""

from __future__ import annotations

from typing import Final

from windlass.json_types import JsonObject
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop
from windlass.tools.tool import Tool

NAME: Final = "wait_for_user"
DESCRIPTION: Final = (
    "Stop and wait for the user's next message. Say what you need from the user in the same reply, "
    "then call this tool."
)
TURN: Final = "chat_turn"  # in the journal: the run is a turn of a chat


def build_wait_tool() -> Tool:
    """Build the tool with which the model gives the word back to the user."""
    return Tool(NAME, DESCRIPTION, {}, _acknowledge, side_effect_level="none", kind="think")


async def _acknowledge(_arguments: JsonObject) -> str:
    return "Waiting for the user."


class ChatTurn(Policy[None]):
    """A policy that marks the run as a turn of a chat, and ends it when the model waits."""

    async def start(self, run: Run) -> None:
        run.note(TURN)

    async def after_turn(self, run: Run, turn: Turn) -> Stop | None:
        for call in turn.calls:
            result = turn.results.get(call.id)
            if call.name == NAME and result is not None and result.outcome == "ok":
                return Stop("done", NAME)
        return None
