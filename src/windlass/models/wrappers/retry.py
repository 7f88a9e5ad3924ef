"""Try a model call again when trying again can help."""

from __future__ import annotations

from windlass import seams
from windlass.errors import ConfigError, ModelError
from windlass.events import LiveEvent, StreamRestarted
from windlass.models.base import Emit, Model, Request, Response
from windlass.usage import Usage


class Retrying(Model):
    """A model that is asked up to `attempts` times: `Retrying(model, attempts=3)`.

    Waits `base_delay`, then twice as long and so on, half of it at random so that many runs do not
    come back at once; a provider that says when to come back is believed. One that wants a longer
    wait than `max_delay` is not waited for. What cannot get better by waiting is raised at once.
    """

    def __init__(
        self,
        model: Model,
        attempts: int = 3,
        *,
        base_delay: float = 2.0,
        max_delay: float = 60.0,
    ) -> None:
        if attempts < 1:
            raise ConfigError(f"attempts must be at least 1, not {attempts}")
        if base_delay < 0 or max_delay < 0:
            raise ConfigError("a delay cannot be negative")
        self.model = model
        self.attempts, self.base_delay, self.max_delay = attempts, base_delay, max_delay
        self.provider, self.name = model.provider, model.name
        self.native_tools, self.context_window = model.native_tools, model.context_window

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The held model's keys: a key may be read from the environment as late as its first call."""
        return self.model.secrets

    async def respond(self, request: Request, emit: Emit) -> Response:
        """The first answer that comes."""
        streamed = False

        def watched(event: LiveEvent) -> None:
            nonlocal streamed
            streamed = True
            emit(event)

        for attempt in range(1, self.attempts):
            try:
                return await self.model.respond(request, watched)
            except ModelError as error:
                wait = self._wait(error, attempt)
                if not error.transient or wait is None:
                    raise
                if streamed:
                    emit(StreamRestarted(f"{error.category}: {error}"))
                    streamed = False
            await seams.sleep(wait)
        return await self.model.respond(request, emit)

    def _wait(self, error: ModelError, attempt: int) -> float | None:
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.max_delay else None
        longest = min(self.max_delay, self.base_delay * 2 ** (attempt - 1))
        return longest * (0.5 + seams.rng.random() / 2)

    def check(self) -> None:
        """As the held model says."""
        self.model.check()

    def price(self, usage: Usage) -> float:
        """As the held model says."""
        return self.model.price(usage)

    async def aclose(self) -> None:
        """Let go of the held model's connections."""
        await self.model.aclose()
