"""From options to the settings that go with every model call, as the model at hand understands them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from windlass.agents.checking import no_key
from windlass.agents.checks import CHECKS
from windlass.agents.options import with_environment
from windlass.errors import ConfigError
from windlass.models.base import Model, Settings
from windlass.models.capabilities import Capabilities
from windlass.models.reasoning import Task, Wish, choose

#: The options that are settings under their own name.
SAME: Final = frozenset(
    {"max_tokens", "temperature", "top_p", "top_k", "stop", "seed", "frequency_penalty",
     "presence_penalty", "tool_choice", "cache", "stream", "timeout", "task_kind",
     "interleaved_thinking", "parallel_tool_calls"}
)  # fmt: skip
_REASONING: Final = frozenset(
    {"thinking", "reasoning_policy", "reasoning_scale", "reasoning_task", "reasoning_effort"}
)
_ALL: Final = SAME | _REASONING | {"anthropic_beta_features"}
_OURS: Final = frozenset(
    {"force_native_tool_search"}
)  # keys of a provider's dict that are not sent

PLAIN: Final = Settings()


def with_defaults(options: Mapping[str, Any], model: Model) -> Mapping[str, Any]:
    """The options, below them what `[llm.model_defaults]` says of the model, then the environment."""
    if model.remote:
        return with_environment(_with_file(options, model))
    # an object of the user's own: no file speaks of it
    return _with_file(options, model) if model.provider == "mock" else options


def _with_file(options: Mapping[str, Any], model: Model) -> Mapping[str, Any]:
    from windlass.models.providers import model_defaults

    found = model_defaults(model.provider, model.name)
    if not found:
        return options
    said = {name for name, value in options.items() if value is not None}
    said.update(cast("Mapping[str, Any]", options.get("llm_options") or {}))
    if not _REASONING.isdisjoint(said):  # one word on thinking silences all the weaker ones
        said |= _REASONING
    try:
        checked = {n: CHECKS[n](n, value) for n, value in found.items() if n not in said}
    except ConfigError as error:
        raise ConfigError(
            f"{error}; [llm.model_defaults] says so of {model.provider}:{model.name}"
        ) from None
    return {**options, **checked}


def settings_for(
    options: Mapping[str, Any], caps: Capabilities, provider: str, task: Task
) -> Settings:
    """The settings of each call to a model that can do `caps`; `llm_options` have the last word.

    `task` is what the door is for, where nobody says what the work is.
    """
    own = options.get(provider)
    extra = options.get("llm_options")
    if not extra and not own and _ALL.isdisjoint(options):
        return usual_settings(caps, task) if caps.thinking else PLAIN
    if extra:
        options = {**options, **_turn_options(extra)}
    chosen: dict[str, Any] = {name: options[name] for name in SAME & options.keys()}
    chosen["thinking"] = _thinking(options, caps, task)
    if beta := options.get("anthropic_beta_features"):
        chosen["beta"] = beta
    if own:
        chosen["extra"] = {name: own[name] for name in own if name not in _OURS} or None
    return Settings(**chosen)


@lru_cache(maxsize=256)
def usual_settings(caps: Capabilities, task: Task) -> Settings:
    """What a model that thinks is told when no option says anything; one object for many runs."""
    thinking = choose(caps, Wish(task=task))
    return PLAIN if thinking is None else Settings(thinking=thinking)


def _turn_options(extra: Mapping[str, Any]) -> dict[str, Any]:
    for name in extra:
        if name not in _ALL:
            raise no_key("llm_options", name, _ALL)
    return {name: CHECKS[name](name, value) for name, value in extra.items()}


def _thinking(options: Mapping[str, Any], caps: Capabilities, task: Task) -> Any:
    asked, effort = options.get("thinking"), options.get("reasoning_effort")
    if effort is not None:
        _agree(asked, effort)
    wish = Wish(
        asked,
        effort,
        options.get("reasoning_policy", "auto"),
        options.get("reasoning_scale", "medium"),
        options.get("reasoning_task") or task,
        options.get("max_tokens"),
    )
    return choose(caps, wish)


def _agree(asked: Any, effort: str) -> None:
    """Two words on the same thing must not contradict each other."""
    if asked is False or (isinstance(asked, dict) and asked.get("mode") == "disabled"):  # pyright: ignore[reportUnknownMemberType]
        raise ConfigError("thinking is off and reasoning_effort is given: leave one of them out")
    if isinstance(asked, dict) and asked.get("effort", effort) != effort:  # pyright: ignore[reportUnknownMemberType]
        raise ConfigError("thinking.effort and reasoning_effort are the same: give one of them")
