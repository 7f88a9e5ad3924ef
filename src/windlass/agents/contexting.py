"""From the options of context to policies, with the reason for each place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from windlass.agents.context import Compaction
from windlass.errors import ConfigError
from windlass.models.base import Model
from windlass.policies.compaction.policy import Compacting, Strategy

_USUAL = Compacting()  # frozen, and shared by all that say nothing else
_NAMES = (
    "compaction", "auto_compact", "compact_strategy", "compact_threshold", "compact_keep_first",
    "compact_keep_last", "compact_callback",
)  # fmt: skip


def bounded(model: Model) -> bool:
    """Is there a limit to what the model takes? One of this process that names none has none."""
    return model.remote or model.context_window is not None or model.provider == "mock"


def compacting(options: Mapping[str, Any], bound: bool) -> Compacting | None:
    """The policy that keeps the view small; None: it is off."""
    given = {name: options[name] for name in _NAMES if options.get(name) is not None}
    if not given:
        return _USUAL if bound else None
    wanted: dict[str, Compaction] = {
        name: given[name] for name in ("compaction", "auto_compact") if name in given
    }
    strategies = {f"{name}.strategy": each.strategy for name, each in wanted.items()}
    strategy = _agreed({"compact_strategy": given.get("compact_strategy"), **strategies})
    if strategy == "none":
        _nothing_else(given)
        return None
    callback = given.get("compact_callback")
    if callback is not None and strategy not in (None, "custom"):
        raise ConfigError(
            f'compact_callback writes the summary with compact_strategy="custom", not {strategy!r}'
        )
    if callback is None and strategy == "custom":
        raise ConfigError('compact_strategy="custom" needs a compact_callback to write the summary')
    strategy = "custom" if callback is not None else strategy or "hybrid"
    lasts = {f"{name}.keep_last_n": each.keep_last_n for name, each in wanted.items()}
    policies = {f"{name}.policy": each.policy for name, each in wanted.items()}
    return Compacting(
        cast("Strategy", strategy),
        threshold=given.get("compact_threshold"),
        keep_first=given.get("compact_keep_first", 0),
        keep_last=_agreed({"compact_keep_last": given.get("compact_keep_last"), **lasts}),
        policy=_agreed(policies),
        callback=callback,
    )


def _agreed(said: Mapping[str, Any]) -> Any:
    """The one value that these options name; two that differ are refused."""
    named = {name: value for name, value in said.items() if value is not None}
    values = list(named.values())
    if any(value != values[0] for value in values):
        raise ConfigError(f"{' and '.join(named)} say different things: give one of them")
    return values[0] if values else None


def _nothing_else(given: Mapping[str, Any]) -> None:
    """Refuse to be told how, by who also says not at all."""
    for name, value in given.items():
        says = value.strategy if isinstance(value, Compaction) else value
        how = isinstance(value, Compaction) and (value.keep_last_n, value.policy) != (None, None)
        if how or (says != "none" and says is not None):
            raise ConfigError(
                f"{name} says how to compact, and compaction is off: give one of them"
            )
