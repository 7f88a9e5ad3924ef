"""`with_retry`: retry failed model calls."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.callers.caller import Layer
from windlass.callers.options import categories, number, takes_a_dict, whole
from windlass.models.base import Model
from windlass.models.wrappers.retry import Backoff, Retrying


class Retry(Layer):
    """The layer of `with_retry`."""

    name = "with_retry"

    def __init__(
        self,
        attempts: int,
        backoff: Backoff,
        base: float,
        longest: float,
        on: frozenset[str] | None,
    ) -> None:
        self.attempts, self.base = attempts, base
        self.backoff: Backoff = backoff
        self.longest, self.on = longest, on
        self.wrap(Model())  # what cannot be is refused now

    def wrap(self, model: Model) -> Model:
        """Wrap the model in retries."""
        return Retrying(
            model,
            self.attempts,
            base_delay=self.base,
            max_delay=self.longest,
            backoff=self.backoff,
            on=self.on,
        )


@takes_a_dict
def with_retry(
    *,
    max_attempts: int = 3,
    backoff: Backoff = "exponential",
    backoff_ms: float = 2000,
    max_backoff_ms: float = 60_000,
    on: Iterable[str] | None = None,
) -> Layer:
    """Retry failed model calls: `with_retry(max_attempts=4, backoff="exponential")`.

    Between attempts it waits `backoff_ms`, growing as `backoff` says ("exponential", "linear",
    "constant", "none"), at most `max_backoff_ms`. If the provider says when to try again, that is
    used; if it is later than `max_backoff_ms`, there is no retry. Transient errors are retried, or
    with `on` errors of these categories. This layer replaces the retries of a run.
    """
    return Retry(
        whole("max_attempts", max_attempts),
        backoff,
        number("backoff_ms", backoff_ms) / 1000,
        number("max_backoff_ms", max_backoff_ms) / 1000,
        None if on is None else categories("on", on),
    )
