"""The options that limit a run, and the profiles: presets of limits and persistence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.loop.ledger import NO_LIMITS, Budget
from windlass.loop.plan import RESUME_ATTEMPTS
from windlass.options.checks import no_key, number, one_of, optional
from windlass.options.group import AGENTS, CALLS, Alias, Flag, Option, OptionGroup, Values

#: Models behind a network are asked up to two times more by every profile, as without one.
PROFILES: Final[Mapping[str, Mapping[str, int]]] = {
    "tool_using": {"max_iterations": 50, "max_nudges": 8, "tool_retries": 0, "schema_retries": 0},
    "researcher": {"max_iterations": 30, "max_nudges": 4, "tool_retries": 0, "schema_retries": 0},
    "verifier": {"max_iterations": 5, "max_nudges": 0, "tool_retries": 0, "schema_retries": 3},
    "completer": {"max_iterations": 1, "max_nudges": 0, "tool_retries": 0, "schema_retries": 0},
}


def check_budget(name: str, value: Any) -> Budget | None:
    """Check the limits of a run, given as a `Budget` or a dict."""
    if isinstance(value, dict):
        limits = cast("dict[str, Any]", value)
        for key in limits:
            if key not in Budget.__struct_fields__:
                raise no_key(name, key, Budget.__struct_fields__)
        value = Budget(**limits)
    if value is not None and not isinstance(value, Budget):
        raise ConfigError(f"{name} is a Budget or a dict, not {safe_repr(value)}")
    if value is not None and value.per is not None:
        raise ConfigError(
            f"{name}: per={value.per!r} is for a Runtime, w.Runtime(budget=…); a run has no days"
        )
    return value


class LimitOptions(OptionGroup, frozen=True, kw_only=True):
    """Limits of a run: turns, tokens, dollars, seconds."""

    max_iterations: Annotated[
        int | None,
        Option(
            number(1, whole=True),
            doors=frozenset({"loop"}),
            aliases=(Alias("max_turns", AGENTS),),
            flags=(Flag(names=("--max-turns",), metavar="N"),),
        ),
    ] = None
    """The most model calls of a run. 50 for `agent_loop`, 10 for an agent (its `max_turns`)."""
    token_budget: Annotated[
        int | None,
        Option(
            optional(number(1, whole=True)),
            aliases=(Alias("max_token_budget", AGENTS),),
            flags=(Flag(names=("--max-tokens-total",), metavar="N"),),
        ),
    ] = None
    """The most tokens of a run, input and output together."""
    budget: Annotated[
        Budget | None,
        Option(
            check_budget,
            doors=CALLS,
            accepts="Budget | dict[str, Any] | None",
            flags=(
                Flag(names=("--max-cost",), metavar="USD", key="usd", low=0),
                Flag(names=("--timeout",), metavar="SECONDS", key="seconds", low=0),
            ),
        ),
    ] = None
    """Limits on turns, tokens, dollars and seconds."""
    max_resume_attempts: Annotated[int | None, Option(optional(number(0, whole=True)))] = (
        RESUME_ATTEMPTS
    )
    """Resumes without progress after which a crashing run is failed; None: no limit."""
    profile: Annotated[str | None, Option(optional(one_of(*PROFILES)))] = None
    """A word that sets several limits: `tool_using`, `researcher`, `verifier`, `completer`."""

    @property
    def limits(self) -> Budget:
        """The budget that was given, or none."""
        return self.budget or NO_LIMITS

    def tokens(self) -> int | None:
        """Return the limit on tokens, whichever option gives it."""
        if self.token_budget is None:
            return self.limits.tokens
        if self.limits.tokens is not None:
            raise ConfigError("token_budget and budget.tokens are the same limit: give one of them")
        return self.token_budget

    def turns(self) -> int | None:
        """Return the limit on turns that was given."""
        return self.limits.iterations if self.max_iterations is None else self.max_iterations

    def collect_limits(self) -> dict[str, float]:
        """Return the limits that were set: a resumed run keeps them."""
        turns, tokens, budget = self.max_iterations, self.token_budget, self.budget
        said: dict[str, float] = {}
        if budget is not None:
            turns, tokens = self.turns(), self.tokens()
        if turns is not None:
            said["iterations"] = turns
        if tokens is not None:
            said["tokens"] = tokens
        if budget is not None and budget.usd is not None:
            said["usd"] = budget.usd
        if budget is not None and budget.seconds is not None:
            said["seconds"] = budget.seconds
        return said

    def build(self, usual: Budget) -> Budget:
        """Build the limits of a run; `usual` says how many turns it takes where nobody does."""
        given, tokens = self.turns(), self.tokens()
        turns = usual.iterations if given is None else given
        if self.limits is NO_LIMITS and tokens is None:
            return _limit_turns(turns)
        return msgspec.structs.replace(self.limits, iterations=turns, tokens=tokens)


@lru_cache(maxsize=64)
def _limit_turns(turns: int | None) -> Budget:
    return Budget(iterations=turns)


def with_profile(values: Values) -> Values:
    """Return the options, and below them those of the profile that they name."""
    if "profile" not in values:
        return values
    options = LimitOptions.read(values)
    if options.profile is None:
        return values
    usual = dict(PROFILES[options.profile])
    if options.limits.iterations is not None:
        del usual["max_iterations"]  # the same limit by another name
    return {**usual, **values}
