"""The model that options name, and what stands between it and a run: callers, retries, tools as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from windlass.engine.judge_policies import Named
from windlass.engine.option_checks import CHECKS
from windlass.engine.options import with_environment
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.loop.plan import Plan
from windlass.loop.policy import moments_of
from windlass.models.base import Model, Settings
from windlass.models.reasoning import Task, Wish, choose
from windlass.models.registry.capabilities import Capabilities
from windlass.options.checks import no_key
from windlass.options.prompts import words_of
from windlass.policies.completion import Mode


def model_of(options: Mapping[str, Any]) -> Model:
    """The model that the options name, or the one they hold."""
    model = options.get("model")
    if isinstance(model, Model):
        for name in ("provider", "model_tier"):
            if options.get(name) is not None:
                raise ConfigError(f"{name} goes with a model's name, not with a Model object")
        if type(model.name) is not str or type(model.provider) is not str:
            raise ConfigError(
                f"a model's provider and name are texts, not {safe_repr((model.provider, model.name))}"
            )
        return model
    from windlass.models.registry.providers import resolve

    tier = options.get("model_tier")
    if tier is None:
        return resolve(model, options.get("provider"))
    if model is not None:
        raise ConfigError("model_tier and model both say which model is asked: give one of them")
    return resolve(None, options.get("provider"), tier=tier)


def choice_fits(options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse to demand a tool that is not there: no provider takes such a request."""
    choice = options.get("tool_choice")
    if isinstance(choice, dict):
        name = cast("dict[str, str]", choice)["name"]
        if name not in names:
            raise ConfigError(f"tool_choice names {name!r}, which no tool is{nearest(name, names)}")
    elif choice == "required" and not names:
        raise ConfigError('tool_choice="required" needs tools to choose from')


def with_retries(model: Model, options: Mapping[str, Any]) -> Model:
    """The model behind the caller that the options name, tried again where that can help."""
    retries = None
    if not _REACHING.isdisjoint(options):
        retries = options.get("llm_retries")
        if options.get("llm_caller") is not None:
            from windlass.callers.caller import as_caller

            model = as_caller(options["llm_caller"]).around(model)
    if model.remote or retries is not None:
        # a network fails now and then; what runs in this process does not, nor what is retried already
        from windlass.models.wrappers.retry import Retrying

        retries = 2 if retries is None else retries
        delay = options.get("llm_backoff_ms")
        model = Retrying(model, retries + 1, base_delay=2.0 if delay is None else delay / 1000)
    return model


_REACHING = frozenset({"llm_caller", "llm_retries"})


def needs_native_repair(model: Model, options: Mapping[str, Any]) -> bool:
    """May the model fail to use its native tools as they are meant? What runs in this process does not."""
    return model.remote or model.provider == "mock" or "native_tool_fallback" in options


def with_tool_format(model: Model, mode: Mode, drifting: bool) -> Model:
    """The model as this way of calling tools needs it."""
    if mode == "text":
        from windlass.models.wrappers.text_tools import TextTools

        model = TextTools(model)
    elif drifting and mode == "native":
        from windlass.models.wrappers.native_tools import Native

        model = Native(model)
    return model


def bind_model(
    plan: Plan, model: Model, mode: Mode, drifting: bool, options: Mapping[str, Any]
) -> Plan:
    """Bind a plan to its model. Where calls are read out of text, the model hears of those that are not."""
    bound = plan.of(with_tool_format(model, mode, drifting))
    if bound.model is model:
        return bound
    from windlass.policies.quoted_calls import FEEDBACK, WORDS, QuotedCalls

    words = words_of(options, "agent.quoted_tool_call", WORDS)
    feedback = FEEDBACK if words is WORDS else QuotedCalls(words)
    *others, last = bound.policies  # the cap on results stays the last
    bound.policies = (*others, feedback, last)
    bound.moments = moments_of(bound.policies)
    bound.deliberates = bound.moments.deliberates
    return bound


def model_resolver(options: Mapping[str, Any]) -> Named:
    """Models that judges' settings name; what these leave open is as the loop has it."""

    def ask(provider: str | None, model: str | Model | None) -> Model:
        found = model_of({"provider": provider, "model": model, **_left_open(provider, model)})
        found.check()
        return with_retries(found, {})

    def _left_open(provider: str | None, model: str | Model | None) -> dict[str, str]:
        if isinstance(model, Model) or (provider is not None and model is not None):
            return {}
        own = model_of(options)
        if model is None:
            return {"model": own.name} if provider == own.provider else {}
        try:
            model_of({"provider": own.provider, "model": model})
        except ConfigError:  # it names a provider itself, or the loop's is none that has others
            return {}
        return {"provider": own.provider}

    return ask


# From options to the settings that go with every model call, as the model at hand understands them.


#: The options that are settings under their own name.
SAME: Final = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "tool_choice",
        "cache",
        "stream",
        "timeout",
        "task_kind",
        "interleaved_thinking",
        "parallel_tool_calls",
    }
)
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
    from windlass.models.registry.providers import model_defaults

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
