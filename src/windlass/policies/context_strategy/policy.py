"""The policy of a context strategy, which replaces compaction."""

from __future__ import annotations

from windlass.errors import ConfigError
from windlass.models.base import Model
from windlass.policies.build import BuildContext, Policies
from windlass.policies.compaction.options import CompactionOptions
from windlass.policies.compaction.policy import build_compactor
from windlass.policies.context_strategy import window
from windlass.policies.context_strategy.custom import Compressing
from windlass.policies.context_strategy.options import (
    CustomStrategy,
    SlidingWindow,
    StrategyOptions,
    Summarize,
)
from windlass.policies.context_strategy.summary import Summarizing


def build(ctx: BuildContext) -> Policies:
    """Build the policy that the strategy asks for."""
    options = StrategyOptions.read(ctx.values)
    if not options.replaces_compaction:
        return ()
    asked = not CompactionOptions.read(ctx.values).is_silent()
    if asked and build_compactor(ctx) is not None:
        raise ConfigError(
            "context_strategy and compaction both keep the view short: give one of them"
        )
    match options.context_strategy:
        case SlidingWindow(max_turns=turns):
            return (window.SlidingWindow(turns),)
        case Summarize() as strategy:
            return (Summarizing(strategy.max_tokens, _resolve(ctx, strategy.summary_model)),)
        case CustomStrategy(compress=compress):
            return (Compressing(compress),)
        case None:
            return ()


def _resolve(ctx: BuildContext, named: str | Model | None) -> Model | None:
    try:
        return None if named is None else ctx.resolve_model(None, named)
    except ConfigError as error:
        raise ConfigError(f"context_strategy.summary_model: {error}") from None
