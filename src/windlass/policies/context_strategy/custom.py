"""The view as a function of yours builds it, before every turn but the first."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec

from windlass.detach import detach
from windlass.errors import ConfigError, error_text, safe_repr
from windlass.events import HistoryRepaired
from windlass.loop.plan import check_storable
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message, as_messages
from windlass.models.base import Request
from windlass.models.history import repair
from windlass.policies.rounds import estimate_view, under_way

CUSTOM: Final = "custom"  # why the view changes
#: `(messages, estimated_tokens)` -> the messages that the model is to see.
Compress: TypeAlias = Callable[[list[Message], int], Any | Awaitable[Any]]


class LastAsked(msgspec.Struct, frozen=True):
    """The last turn in which the function was called; its answer then stands."""

    turn: int = 0


class Compressing(Policy[LastAsked]):
    """A policy that asks `compress` what the view should be."""

    memory = LastAsked

    def __init__(self, compress: Compress) -> None:
        self.compress = compress

    @property
    def name(self) -> str:
        return "custom_strategy"

    async def before_model(self, run: Run, request: Request) -> Request:
        """Call the function once in a turn, from the second on, and record its answer."""
        asked: LastAsked = run.recall(self)
        if asked.turn == run.number or not under_way(run):
            return request
        before = list(run.messages)
        answer = self.compress(detach(before), estimate_view(run))
        if inspect.isawaitable(answer):
            answer = await answer
        after, problems = repair(parse_messages(answer))
        run.remember(self, LastAsked(run.number))
        if not after:
            raise ConfigError(
                f"context_strategy.compress leaves nothing that can be sent: {problems[0]}"
            )
        if problems:  # for example a call without its result, which providers refuse
            run.note(HistoryRepaired(tuple(problems)))
        start, stop, new = find_changed_span(before, after)
        if start == stop and not new:
            return request
        run.reshape((start, stop), new, CUSTOM)
        return msgspec.structs.replace(request, messages=run.messages)


def parse_messages(answer: object) -> list[Message]:
    """Convert the function's answer to messages; anything else fails the run."""
    items = cast("Sequence[object]", answer) if isinstance(answer, (list, tuple)) else ()
    if not items or not all(isinstance(item, (Message, Mapping)) for item in items):
        raise ConfigError(
            "context_strategy.compress returns a list of messages that is not empty, "
            f"not {safe_repr(cast('object', answer))}"
        )
    try:
        messages = [message for item in items for message in as_messages(item)]
        check_storable(messages, "what it returns")
        # what was put together by hand may hold anything: it is checked as if it had been stored
        return msgspec.convert(msgspec.to_builtins(messages), list[Message])
    except (TypeError, ValueError, RecursionError, ConfigError) as error:
        raise ConfigError(
            f"context_strategy.compress returns no messages: {error_text(error)}"
        ) from None


def find_changed_span(
    old: Sequence[Message], new: Sequence[Message]
) -> tuple[int, int, Sequence[Message]]:
    """Return the one span of the old that differs, and its messages in the new."""
    most, start, end = min(len(old), len(new)), 0, 0
    while start < most and _same(old[start], new[start]):
        start += 1
    while end < most - start and _same(old[-1 - end], new[-1 - end]):
        end += 1
    return start, len(old) - end, new[start : len(new) - end]


def _same(one: Message, other: Message) -> bool:
    return one is other or one == other
