"""What an area costs while it has nothing to do: every policy on, none of them due.

The figure is what a turn adds to the bare loop with the area on, over what it adds without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

import windlass as w
from bench import bare
from bench.proof import prove
from bench.proof_of_calls import counted
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin
from windlass.engine.environment import current_store

GROWTH = 1.2
LENGTHS = (100, 500)


class Idle(msgspec.Struct):
    """An area: its options on and off, the model they run with, and how much a turn may add."""

    area: str
    most: float
    model: Callable[[], w.Model]
    off: dict[str, Any]
    on: dict[str, Any]
    entries_proved: int = 0

    async def rows(
        self, reps: int = REPS, target: float = TARGET, lengths: tuple[int, int] = LENGTHS
    ) -> list[Row]:
        """What a turn costs, and that a late one costs no more."""
        works: dict[str, Work] = {}
        for turns in lengths:
            works[f"bare {turns}"] = _by_hand(turns)
            works[f"off {turns}"] = self._recorded(turns, self.off)
            works[f"on {turns}"] = self._recorded(turns, self.on)
        taken = await rounds(works, reps, target=target)
        what, found = f"all of {self.area} on but idle", list[Row]()
        for turns in lengths:
            none, off, on = (taken[f"{side} {turns}"] for side in ("bare", "off", "on"))
            pair = paired(
                [mine - base for mine, base in zip(on, none, strict=True)],
                [mine - base for mine, base in zip(off, none, strict=True)],
            )
            name = f"{what}, {turns} turns: what a turn adds, over the plain loop"
            sides = micro(pair.ours / turns), f"plain: {micro(pair.bare / turns)}"
            found.append(Row(name, pair.ratio, self.most, *sides, (pair.low, pair.high)))
        short, long = lengths
        grown = paired(
            [seconds / long for seconds in taken[f"on {long}"]],
            [seconds / short for seconds in taken[f"on {short}"]],
        )
        name = f"{what}: a turn of {long} over a turn of {short}"
        between = grown.low, grown.high
        return [*found, Row(name, grown.ratio, GROWTH, micro(grown.ours), "", between)]

    def _recorded(self, turns: int, options: dict[str, Any]) -> Work:
        tools: list[Any] = [TOOLS["add"]]
        agent = w.Agent(self.model(), system=SYSTEM, tools=tools, **options)

        async def once() -> Any:
            begin(Script(turns))
            out = await agent.run(PROMPT)
            assert out.final_text == DONE and out.status == "done", out
            return out

        async def after(results: list[Any]) -> None:
            self.entries_proved += await prove(current_store(), results, Script(turns))

        return Work(once, after)


def _by_hand(turns: int) -> Work:
    functions = bare.build("add")
    return counted(lambda: bare.run(functions, Script(turns)), Script(turns).calls)
