"""The model that options name, and what stands between it and a run: callers, retries, tools as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from windlass.agents.judging import Named
from windlass.agents.prompts import words_of
from windlass.errors import ConfigError, nearest, shown
from windlass.loop.plan import Plan
from windlass.loop.policy import moments_of
from windlass.models.base import Model
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
                f"a model's provider and name are texts, not {shown((model.provider, model.name))}"
            )
        return model
    from windlass.models.providers import resolve

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


def reached(model: Model, options: Mapping[str, Any]) -> Model:
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


def drifts(model: Model, options: Mapping[str, Any]) -> bool:
    """May the model fail to use its native tools as they are meant? What runs in this process does not."""
    return model.remote or model.provider == "mock" or "native_tool_fallback" in options


def wrapped(model: Model, mode: Mode, drifting: bool) -> Model:
    """The model as this way of calling tools needs it."""
    if mode == "text":
        from windlass.models.wrappers.text_tools import TextTools

        model = TextTools(model)
    elif drifting and mode == "native":
        from windlass.models.wrappers.native import Native

        model = Native(model)
    return model


def bind_model(
    plan: Plan, model: Model, mode: Mode, drifting: bool, options: Mapping[str, Any]
) -> Plan:
    """Bind a plan to its model. Where calls are read out of text, the model hears of those that are not."""
    bound = plan.of(wrapped(model, mode, drifting))
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


def named(options: Mapping[str, Any]) -> Named:
    """Models that judges' settings name; what these leave open is as the loop has it."""

    def ask(provider: str | None, model: str | Model | None) -> Model:
        found = model_of({"provider": provider, "model": model, **_left_open(provider, model)})
        found.check()
        return reached(found, {})

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
