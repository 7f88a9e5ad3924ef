"""Retries of a model call where a retry can help."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from windlass import seams
from windlass.errors import ConfigError, ModelError, error_text, nearest, safe_repr
from windlass.events import StreamRestarted
from windlass.models.base import Emit, Holding, Model, Request, Response, silent
from windlass.models.meter import UnwatchedEmit, begin_request, fail_request
from windlass.models.wrappers.base import EmitTracker, is_final

log = logging.getLogger("windlass.models")

Backoff: TypeAlias = Literal["exponential", "linear", "constant", "none"]

_BACKOFFS: Final = get_args(Backoff)

#: The number of the current attempt, for models inside.
attempt_under_way: ContextVar[int] = ContextVar("windlass_attempt", default=1)


class Retrying(Holding):
    """A model that is asked up to `attempts` times: `Retrying(model, attempts=3)`.

    Waits `base_delay`, then twice as long and so on, half of it at random so that many runs do not
    come back at once; a retry delay of the provider is respected. One that wants a longer
    wait than `max_delay` is not waited for. What cannot get better by waiting is raised at once;
    with `on`, only errors of these categories are tried again.
    """

    def __init__(
        self,
        model: Model,
        attempts: int = 3,
        *,
        base_delay: float = 2.0,
        max_delay: float = 60.0,
        backoff: Backoff = "exponential",
        on: Collection[str] | None = None,
    ) -> None:
        if attempts < 1:
            raise ConfigError(f"attempts must be at least 1, not {attempts}")
        if base_delay < 0 or max_delay < 0:
            raise ConfigError("a delay cannot be negative")
        if backoff not in _BACKOFFS:
            hint = nearest(str(backoff), _BACKOFFS)
            raise ConfigError(f"backoff is one of {_BACKOFFS}, not {safe_repr(backoff)}{hint}")
        super().__init__(model)
        self.retries_calls = True
        self.attempts, self.base_delay, self.max_delay = attempts, base_delay, max_delay
        self.backoff: Backoff = backoff
        self.on = on

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the first answer of up to `attempts` calls."""
        # Nobody has to be told to forget what was shown, where nobody watches.
        unwatched = emit is silent or type(emit) is UnwatchedEmit
        watched = emit if unwatched else EmitTracker(emit)
        try:
            return await self.model.respond(request, watched)
        except ModelError as error:
            failed = error.attempts  # what is held may try more than once itself
            await self._pause(error, 1, failed, watched)
        return await self._retry(request, emit, failed)

    async def _retry(self, request: Request, emit: Emit, failed: int) -> Response:
        """Make the second call and those after it; `failed` requests came to nothing so far."""
        attempt = 2
        while True:
            watched = EmitTracker(emit)
            try:
                return await self._again(attempt, request, watched, failed)
            except ModelError as error:
                failed += error.attempts
                await self._pause(error, attempt, failed, watched)
            attempt += 1

    async def _pause(self, error: ModelError, attempt: int, failed: int, watched: Emit) -> None:
        """Wait before the next attempt; raise the error if there is none."""
        wait = self._wait(error, attempt)
        if attempt >= self.attempts or wait is None or not self._worth_it(error):
            error.attempts = failed
            raise error
        log.info(
            "%s:%s: attempt %d of %d failed (%s: %s); next in %.3g s",
            self.provider,
            self.name,
            attempt,
            self.attempts,
            error.category,
            error_text(error, 300),
            wait,
        )
        fail_request(error)
        if isinstance(watched, EmitTracker) and watched.anything:
            watched.emit(StreamRestarted(f"{error.category}: {error}"))
        await seams.sleep(wait)

    async def _again(self, attempt: int, request: Request, emit: Emit, in_vain: int) -> Response:
        before = attempt_under_way.set(attempt)
        try:
            request = await begin_request(self.model, request)
            response = await self.model.respond(request, emit)
        finally:
            attempt_under_way.reset(before)
        if type(response) is not Response or type(response.attempts) is not int:
            return response  # no reply at all: the caller handles it
        return msgspec.structs.replace(response, attempts=in_vain + response.attempts)

    def _worth_it(self, error: ModelError) -> bool:
        if is_final(error):
            return False
        if self.on is None:  # a circuit breaker answers at once, so that nobody waits for it
            return error.transient and error.category != "circuit_open"
        return error.category in self.on

    def _wait(self, error: ModelError, attempt: int) -> float | None:
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.max_delay else None
        match self.backoff:
            case "exponential":
                longest = self.base_delay * 2 ** min(attempt - 1, 60)
            case "linear":
                longest = self.base_delay * attempt
            case "constant":
                longest = self.base_delay
            case "none":
                return 0.0
        return min(self.max_delay, longest) * (0.5 + seams.rng.random() / 2)
