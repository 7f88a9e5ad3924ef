"""The work both sides do: a scripted model's answers, and the tools they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar

SYSTEM = "You are a calculator."
PROMPT = "go"
DONE = "done"

SLOW = 0.2  # seconds the slow tool takes, and the model needs to write the second call
PIECES = ('{"a"', ": ", "3", ", ", '"b"', ": ", "4", "", "", "}")

_current: ContextVar[Script] = ContextVar("script")
begin = _current.set
script_now = _current.get
ran = [0]  # tool executions, so that nobody is timed for work that was not done


class Script:
    """What the model says in `turns` turns: calls of one tool in all but the last, then words.

    `width` calls in each turn; `deltas` pieces of text in the last. With `eager` the first turn
    writes a slow call at once and a quick one bit by bit. With `yields` every answer lets other
    loops go first.
    """

    __slots__ = ("at", "deltas", "eager", "tool", "turns", "width", "yields")

    def __init__(
        self,
        turns: int,
        width: int = 1,
        tool: str = "add",
        deltas: int = 0,
        eager: bool = False,
        yields: bool = False,
    ) -> None:
        self.turns, self.width, self.tool = turns, width, tool
        self.deltas, self.eager, self.yields = deltas, eager, yields
        self.at = 0

    @property
    def calls(self) -> int:
        """How many tool calls a whole run makes."""
        return 2 if self.eager else (self.turns - 1) * self.width

    def calls_next(self) -> list[tuple[str, str, str]] | None:
        """The next answer: calls as (id, name, JSON arguments). None: the closing words, `DONE`."""
        at = self.at
        self.at = at + 1
        if at >= self.turns - 1:
            return None
        tool = self.tool
        return [
            (f"c{at}_{place}", tool, f'{{"a": {at}, "b": {place}}}') for place in range(self.width)
        ]

    async def stream(self) -> AsyncIterator[tuple[str, str, str]]:
        """The next answer as it is written: ("text", piece, ""), ("call", id, name), ("args", id, piece), ("ready", id, "")."""
        at = self.at
        self.at = at + 1
        if not self.eager or at:
            for _ in range(self.deltas or 1):
                yield "text", "tok ", ""
            return
        yield "call", "A", "slow"
        yield "args", "A", '{"a": 1, "b": 2}'
        yield "ready", "A", ""
        yield "call", "B", "quick"
        for piece in PIECES:
            await asyncio.sleep(SLOW / len(PIECES))
            yield "args", "B", piece
        yield "ready", "B", ""


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: The first number.
        b: The second number.
    """
    ran[0] += 1
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add two integers, blocking.

    Args:
        a: The first number.
        b: The second number.
    """
    ran[0] += 1
    return a + b


async def slow(a: int, b: int) -> int:
    """Add two integers after a while."""
    ran[0] += 1
    await asyncio.sleep(SLOW)
    return a + b


async def quick(a: int, b: int) -> int:
    """Add two integers at once."""
    ran[0] += 1
    return a + b


TOOLS = {fn.__name__: fn for fn in (add, add_sync, slow, quick)}
