"""Verdicts of a policy on a turn, from the strongest to the weakest.

`Stop > Suspend > KeepGoing > Finish > None`. A verdict tells the model nothing; `run.say` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

import msgspec

from windlass.errors import ConfigError, error_text, safe_repr
from windlass.json_types import JsonObject
from windlass.messages import ToolResult

_WORDS = ("status", "reason", "initiator")


class _Recorded(msgspec.Struct, frozen=True):
    """A verdict, which is recorded and so holds only what a journal can hold."""

    def __post_init__(self) -> None:
        try:
            msgspec.json.encode(self)
            for name in _WORDS:
                value = getattr(self, name, None)
                if value is not None and type(value) is not str:
                    raise TypeError(f"{name} is {safe_repr(value)}")
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            name = type(self).__name__
            raise ConfigError(
                f"{name} is made of texts and plain data: {error_text(error)}"
            ) from error


class Stop(_Recorded, frozen=True):
    """End the run now, whatever other policies say: `Stop("stuck", "max_nudges")`."""

    word: ClassVar[Literal["stop"]] = "stop"  # on record
    status: str
    reason: str | None = None
    error: JsonObject | None = None


class Suspend(_Recorded, frozen=True):
    """Park the run until somebody answers: `Suspend("waiting for Ann")`."""

    word: ClassVar[Literal["suspend"]] = "suspend"
    status: ClassVar[None] = None  # no end
    reason: str
    conditions: JsonObject | None = None
    initiator: str = "self"


class Ask(Suspend, frozen=True):
    """A question at `before_tool` about this call: `Ask("may it?", expires_in=60)`.

    `about` is what the question looked at: if it is different when the call runs, the answer does
    not count. `receipt` is for the record and for the person who is asked.
    """

    about: JsonObject | None = None
    receipt: JsonObject | None = None
    expires_in: float | None = None  # seconds; None: for ever


class Granted(_Recorded, frozen=True):
    """A permission at `before_tool`, with the reason and who gave it.

    `ask` is a question that was answered at once, `by` the person or function that answered it.
    """

    reason: str | None = None
    by: str | None = None
    ask: Ask | None = None
    receipt: JsonObject | None = None


class Refused(_Recorded, frozen=True):
    """A refusal at `before_tool`. The model reads `result`; the rest is recorded."""

    result: ToolResult
    reason: str | None = None
    by: str | None = None
    ask: Ask | None = None
    receipt: JsonObject | None = None


class KeepGoing(_Recorded, frozen=True):
    """Refuse the end of the run: `KeepGoing("tests are missing")`.

    `drop=True` at `after_reply` removes the reply from the view.
    """

    word: ClassVar[Literal["keep_going"]] = "keep_going"
    status: ClassVar[None] = None  # no end
    reason: str | None = None
    drop: bool = False


class Finish(_Recorded, frozen=True):
    """Propose the end of the run: `Finish("all tests pass")`; policies may still object."""

    word: ClassVar[Literal["finish"]] = "finish"
    reason: str = "natural"
    status: str = "done"


Verdict: TypeAlias = Stop | Suspend | KeepGoing | Finish

_STRENGTH: dict[type, int] = {Stop: 4, Suspend: 3, KeepGoing: 2, Finish: 1}


def strongest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the strongest verdict, the first among equals."""
    best: Verdict | None = None
    for verdict in verdicts:
        if best is None or _STRENGTH[type(verdict)] > _STRENGTH[type(best)]:
            best = verdict
    return best


class Outcome(msgspec.Struct, frozen=True):
    """The end of a run: status, reason, and `fields` that policies add to the result."""

    status: str
    stop_reason: str | None = None
    error: JsonObject | None = None
    exception: BaseException | None = None
    fields: JsonObject = {}
