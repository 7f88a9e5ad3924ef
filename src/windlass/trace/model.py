"""The parts of a trace: runs, their turns, bars with a beginning and an end, and marks.

Times are seconds since the picture's own zero. Nothing here is cut or cleaned: that is done when it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.usage import NO_USAGE, Usage

Kind: TypeAlias = Literal["model", "aside", "tool"]  # an aside is a model call of a policy's own
Tone: TypeAlias = Literal["plain", "good", "warn", "bad"]

OPEN = "open"  # the outcome of what has no end on record
RUNNING = "running"  # of what has none yet: its process is at work
WAITING = "waiting"  # of what is parked
UNENDED = (OPEN, RUNNING, WAITING)


class Bar(msgspec.Struct):
    """Something that took time: a model call or a tool call."""

    kind: Kind
    name: str
    start: float
    end: float
    entry: int  # number in the session of the entry that ended it
    outcome: str = "ok"
    provider: str = ""
    purpose: str | None = None
    stop_reason: str | None = None
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    attempts: int = 1
    via: str | None = None
    call_id: str | None = None
    effect: str | None = None
    eager: bool = False
    arguments: Any = None
    answer: str = ""
    thought: str = ""
    asks: tuple[str, ...] = ()  # names of the tools a reply asks for
    children: tuple[Picture, ...] = ()  # sessions of agents that the call handed work to
    traceback: str = ""  # of what a tool raised

    @property
    def failed(self) -> bool:
        """Whether the call failed."""
        return self.outcome != "ok" and self.outcome not in UNENDED

    @property
    def seconds(self) -> float:
        """The duration."""
        return max(0.0, self.end - self.start)


class Mark(msgspec.Struct):
    """Something that was decided or happened at one moment."""

    kind: str  # judge, check, stall, limit, parked, …
    text: str
    at: float
    entry: int
    tone: Tone = "plain"
    detail: str = ""


class Turn(msgspec.Struct):
    """One turn; number 0 is what happened outside any."""

    number: int
    start: float
    end: float = 0.0
    bars: list[Bar] = []
    marks: list[Mark] = []

    @property
    def usage(self) -> Usage:
        """Tokens of all its model calls."""
        return sum((bar.usage for bar in self.bars), NO_USAGE)

    @property
    def cost_usd(self) -> float:
        """Dollars of all its model calls."""
        return sum(bar.cost_usd for bar in self.bars)

    @property
    def notable(self) -> bool:
        """Whether there is more to see than calls that went well."""
        return any(bar.failed or bar.children for bar in self.bars) or any(
            mark.kind not in ("verdict", "said") for mark in self.marks
        )


class StepState(msgspec.Struct):
    """A step of a workflow, and how far it is: `done`, `failed`, or one of `UNENDED`."""

    number: int
    name: str
    kind: str
    status: str = OPEN
    verdict: str | None = None
    edges: tuple[str, ...] = ()  # the nodes that it led to


class Part(msgspec.Struct):
    """One run of the session."""

    number: int
    run_id: str
    door: str
    caller: str
    provider: str
    model: str
    start: float
    end: float = 0.0
    name: str | None = None
    status: str | None = None  # None: under way, or killed
    stop_reason: str | None = None
    error: str | None = None
    prompt: str = ""
    turns: list[Turn] = []
    steps: list[StepState] = []  # of a workflow, in the order in which they were begun
    under_way: bool = False  # a process is at work on it

    @property
    def turn_count(self) -> int:
        """The number of turns that began."""
        return sum(turn.number > 0 for turn in self.turns)


class Picture(msgspec.Struct):
    """A session: its runs on one time axis."""

    session_id: str
    zero: float  # epoch seconds
    parts: list[Part]
    entries: int = 0
    parent_id: str | None = None
    branch_at: int | None = None
    forks: tuple[str, ...] = ()

    def bars(self, *, nested: bool = False) -> Iterator[Bar]:
        """Yield every bar; with `nested` also those of agents that were called as tools."""
        for part in self.parts:
            for turn in part.turns:
                for bar in turn.bars:
                    yield bar
                    for child in bar.children if nested else ():
                        yield from child.bars(nested=True)

    def marks(self) -> Iterator[Mark]:
        """Yield every mark."""
        for part in self.parts:
            for turn in part.turns:
                yield from turn.marks

    @property
    def totals(self) -> Totals:
        """The totals, called agents included."""
        bars = list(self.bars(nested=True))
        usage = sum((bar.usage for bar in bars), NO_USAGE)
        return Totals(
            sum(part.turn_count for part in self.parts),
            sum(bar.kind != "tool" for bar in bars),
            sum(bar.kind == "tool" for bar in bars),
            sum(bar.failed for bar in bars),
            usage,
            sum(bar.cost_usd for bar in bars),
        )


class Totals(msgspec.Struct, frozen=True):
    """Sums over a picture."""

    turns: int
    model_calls: int
    tool_calls: int
    failed: int
    usage: Usage
    cost_usd: float


def cached_share(usage: Usage) -> float | None:
    """Return the cached share of the prompt, 0 to 1; None without a prompt."""
    if not usage.input_tokens:
        return None
    return min(1.0, usage.cache_read_tokens / usage.input_tokens)
