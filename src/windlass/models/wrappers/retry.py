"""Retries of a model call where a retry can help."""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Literal, TypeAlias, get_args

import msgspec

from windlass import seams
from windlass.errors import ConfigError, ModelError, nearest, safe_repr
from windlass.events import StreamRestarted
from windlass.models.base import Emit, Model, Request, Response
from windlass.models.meter import begin_request, fail_request
from windlass.models.wrappers.base import EmitTracker, Holding, is_final

Backoff: TypeAlias = Literal["exponential", "linear", "constant", "none"]

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
        if backoff not in get_args(Backoff):
            known = get_args(Backoff)
            raise ConfigError(
                f"backoff is one of {known}, not {safe_repr(backoff)}{nearest(str(backoff), known)}"
            )
        super().__init__(model)
        self.remote = False  # it is tried again already
        self.attempts, self.base_delay, self.max_delay = attempts, base_delay, max_delay
        self.backoff: Backoff = backoff
        self.on = on

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the first answer of up to `attempts` calls."""
        attempt, asked = 1, self.model.respond
        in_vain = 0  # what is held may try more than once itself
        while attempt < self.attempts:
            watched = EmitTracker(emit)
            try:
                if attempt == 1:
                    return await asked(request, watched)
                return await self._again(attempt, request, watched, in_vain)
            except ModelError as error:
                in_vain += error.attempts
                wait = self._wait(error, attempt)
                if wait is None or not self._worth_it(error):
                    error.attempts = in_vain
                    raise
                fail_request(error)
                if watched.anything:
                    emit(StreamRestarted(f"{error.category}: {error}"))
            await seams.sleep(wait)
            attempt += 1
        if attempt == 1:
            return await asked(request, emit)
        try:
            return await self._again(attempt, request, emit, in_vain)
        except ModelError as error:
            error.attempts += in_vain
            raise

    async def _again(self, attempt: int, request: Request, emit: Emit, in_vain: int) -> Response:
        before = attempt_under_way.set(attempt)
        try:
            request = await begin_request(self.model, request)
            response = await self.model.respond(request, emit)
        finally:
            attempt_under_way.reset(before)
        if type(response) is not Response:
            return response  # no reply at all: the caller handles it
        return msgspec.structs.replace(response, attempts=in_vain + response.attempts)

    def _worth_it(self, error: ModelError) -> bool:
        if is_final(error):
            return False
        return error.transient if self.on is None else error.category in self.on

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
