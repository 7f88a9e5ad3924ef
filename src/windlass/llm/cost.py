"""Costs of model calls: prices, spending so far, and limits."""

from __future__ import annotations

import msgspec

from windlass.engine.environment import current_environment
from windlass.errors import ConfigError, safe_repr
from windlass.loop.ledger import NO_LIMITS
from windlass.loop.reply import cost_of
from windlass.models.base import Model
from windlass.records import Record
from windlass.usage import Usage


class SessionCost(Record, frozen=True):
    """What the current Runtime has spent: `llm_session_cost().total_cost`, in dollars.

    Fields are items too: `cost["call_count"]`, `dict(cost)`.
    """

    total_cost: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    call_count: int = 0


def llm_cost(
    model: str | Model,
    input_tokens: int,
    output_tokens: int = 0,
    *,
    provider: str | None = None,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    gpu_ms: float = 0.0,
) -> float:
    """Return the price of so many tokens in dollars; 0 if the price is unknown.

    ```python
    w.llm_cost("claude-sonnet-4-20250514", 1000, 500)
    w.llm_cost("openai:gpt-4o", 100_000, 2_000, cache_read_tokens=90_000)
    ```
    `input_tokens` is the whole prompt; `cache_read_tokens` and `cache_write_tokens` are parts of
    it.
    """
    usage = Usage(
        _count("input_tokens", input_tokens),
        _count("output_tokens", output_tokens),
        _count("cache_read_tokens", cache_read_tokens),
        _count("cache_write_tokens", cache_write_tokens),
        gpu_ms=float(_amount("gpu_ms", gpu_ms)),
    )
    if usage.cache_read_tokens + usage.cache_write_tokens > usage.input_tokens:
        raise ConfigError("cached tokens are part of input_tokens: there cannot be more of them")
    known = _resolve_model(model, provider)
    return 0.0 if known is None else cost_of(known, usage) or 0.0


def _resolve_model(model: object, provider: str | None) -> Model | None:
    if isinstance(model, Model):
        return model
    if not isinstance(model, str) or not model:
        raise ConfigError(f"model is a name or a Model object, not {safe_repr(model)}")
    from windlass.models.registry.providers import resolve

    try:
        return resolve(model, provider)
    except ConfigError:
        return None  # an unknown model costs nothing on paper


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ConfigError(f"{name} is a whole number of at least 0, not {safe_repr(value)}")
    return value


def _amount(name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ConfigError(f"{name} is a number of at least 0, not {safe_repr(value)}")
    return value


def _dollars(value: object) -> None:
    """Refuse what is no amount of dollars, in the words of `llm_budget`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        raise ConfigError(
            f"llm_budget takes dollars, a number of at least 0 such as 1.00, not {safe_repr(value)}; "
            "None takes the limit away"
        )


def llm_session_cost() -> SessionCost:
    """Return what the current Runtime has spent in all runs and single calls.

    ```python
    cost = w.llm_session_cost()
    print(f"${cost.total_cost:.4f} for {cost.call_count} calls")
    ```
    """
    books = current_environment().ledger
    return SessionCost(books.paid_usd, books.input_tokens, books.output_tokens, books.calls)


def llm_budget(max_cost: float | None) -> None:
    """Limit the dollars of the current Runtime: `w.llm_budget(1.00)`; None removes the limit.

    What was spent before counts. A call that would exceed the limit is not made: `llm_call` raises
    `BudgetExceeded`, a run ends as `budget_exhausted`.
    """
    if max_cost is not None:
        _dollars(max_cost)
    books = current_environment().ledger
    limits = msgspec.structs.replace(books.limits, usd=max_cost)
    books.limit(NO_LIMITS if limits == NO_LIMITS else limits)


def llm_budget_remaining() -> float | None:
    """Return the dollars that are left of `llm_budget`; None without a limit."""
    books = current_environment().ledger
    limit = books.limits.usd
    return None if limit is None else max(0.0, limit - books.usd)
