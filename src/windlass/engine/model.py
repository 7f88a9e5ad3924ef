"""The model that options name, what stands between it and a run, and the settings of its calls.

Wrappers and tables of providers are loaded when a model needs them: one of this process does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from windlass.engine.model_options import (
    SETTINGS,
    ModelOptions,
    ProviderDict,
    ProviderOptions,
    ReasoningOptions,
    SettingOptions,
)
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject
from windlass.models.base import Model, Settings
from windlass.models.reasoning import Task, Wish, choose
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.scope import environ
from windlass.models.wrappers.native_tools import Native
from windlass.models.wrappers.retry import Retrying
from windlass.options.checks import no_key
from windlass.options.group import Values
from windlass.options.parse import check_option
from windlass.policies.build import Mode, ModelResolver

RETRIES: Final = 2  # of a failed model call, where no option says how many


def resolve_model(options: ModelOptions) -> Model:
    """Return the model that the options name, or the one they hold."""
    model, tier = options.model, options.model_tier
    if isinstance(model, Model):
        if options.provider is not None or tier is not None:
            name = "model_tier" if options.provider is None else "provider"
            raise ConfigError(f"{name} goes with a model's name, not with a Model object")
        if (given := first_connection_option(options)) is not None:
            raise ConfigError(
                f"{given} goes with a model's name; give it to the Model object itself"
            )
        if type(model.name) is not str or type(model.provider) is not str:
            raise ConfigError(
                f"a model's provider and name are texts, not {safe_repr((model.provider, model.name))}"
            )
        return model
    from windlass.models.registry.providers import resolve

    if tier is not None and model is not None:
        raise ConfigError("model_tier and model both say which model is asked: give one of them")
    return resolve(
        model,
        options.provider,
        tier=tier,
        api_key=options.api_key,
        base_url=options.base_url,
        headers=options.headers,
    )


#: How a model that is given by name is reached. Another model takes none of it over.
CONNECTION: Final = ("api_key", "base_url", "headers")


def without_foreign_connection(values: JsonObject, before: Values) -> JsonObject:
    """Drop a key and an address that were given for the provider of other options.

    `before` are the options that they were given with: a key is never sent to another provider.
    """
    if ModelOptions.read(before) == ModelOptions.read(values):
        return values
    kept = [name for name in CONNECTION if values.get(name) is not None]
    kept = [name for name in kept if values[name] is before.get(name)]
    if not kept:
        return values
    if not isinstance(ModelOptions.read(values).model, Model):
        provider = resolve_model(ModelOptions.read(before)).provider
        if resolve_model(ModelOptions.read(values)).provider == provider:
            return values
    return {name: value for name, value in values.items() if name not in kept}


def first_connection_option(options: ModelOptions) -> str | None:
    """Return the name of the first option that says how a model is reached, if one is given."""
    if options.api_key is None and options.base_url is None and options.headers is None:
        return None  # as nearly always
    return next((name for name in CONNECTION if getattr(options, name) is not None), None)


def check_tool_choice(choice: str | JsonObject | None, names: Sequence[str]) -> None:
    """Refuse to demand a tool that is not there: no provider takes such a request."""
    if isinstance(choice, dict):
        name = choice["name"]
        if name not in names:
            raise ConfigError(f"tool_choice names {name!r}, which no tool is{nearest(name, names)}")
    elif choice == "required" and not names:
        raise ConfigError('tool_choice="required" needs tools to choose from')


def with_retries(model: Model, options: ModelOptions) -> Model:
    """Wrap the model in the caller of the options, and in retries unless it has its own."""
    if options.llm_caller is not None:
        from windlass.callers.caller import as_caller

        model = as_caller(options.llm_caller).around(model)
    retries, delay = options.llm_retries, options.llm_backoff_ms
    if retries is None:
        if model.retries_calls:
            return model
        retries = RETRIES
    seconds = model.retry_delay if delay is None else delay / 1000
    return Retrying(model, retries + 1, base_delay=seconds)


def with_tool_format(model: Model, mode: Mode) -> Model:
    """Return the model as this way of calling tools needs it."""
    if mode == "native":
        return Native(model)
    if mode == "text":
        from windlass.models.wrappers.text_tools import TextTools

        return TextTools(model)
    return model


def model_resolver(options: ModelOptions) -> ModelResolver:
    """Return a function that finds models named by behaviours, with the run's defaults."""

    def resolve_named(provider: str | None, model: str | Model | None) -> Model:
        found = resolve_model(_fill_in(options, provider, model))
        found.check()
        return with_retries(found, _PLAIN_MODEL)

    return resolve_named


_PLAIN_MODEL: Final = ModelOptions()


def _fill_in(
    options: ModelOptions, provider: str | None, model: str | Model | None
) -> ModelOptions:
    named = ModelOptions(provider=provider, model=model)
    if isinstance(model, Model):
        return named
    own = resolve_model(options)
    if provider is not None and model is not None:
        return _with_connection(named, options) if provider == own.provider else named
    if model is None:
        same = provider == own.provider
        if not same:
            return named
        return _with_connection(ModelOptions(provider=provider, model=own.name), options)
    # the key of the run's provider goes to that provider alone
    within = _with_connection(ModelOptions(provider=own.provider, model=model), options)
    try:
        resolve_model(within)
    except ConfigError:  # it names a provider itself, or the run's is none that has others
        return named
    return within


def _with_connection(named: ModelOptions, options: ModelOptions) -> ModelOptions:
    return msgspec.structs.replace(
        named, api_key=options.api_key, base_url=options.base_url, headers=options.headers
    )


# --------------------------------------------------------------------------- settings

_REASONING: Final = frozenset(ReasoningOptions.__struct_fields__)
_NO_SETTINGS: Final = Settings()
_STREAM_WORDS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def with_defaults(values: Values, model: Model) -> Values:
    """Add the environment's choices below the options, then `[llm.model_defaults]` of the model."""
    if model.remote:
        return _with_file(_with_environment(values), model)
    # an object of the user's own: no file configures it
    return _with_file(values, model) if model.provider == "mock" else values


def _with_environment(values: Values) -> Values:
    """Add the environment's choice of streaming for a remote call, where none is set."""
    text = environ().get("WINDLASS_LLM_STREAM")
    llm_options = ProviderOptions.read(values).llm_options or {}
    if not text or "stream" in values or "stream" in llm_options:
        return values
    stream = _STREAM_WORDS.get(text.strip().lower())
    if stream is None:
        raise ConfigError(f"WINDLASS_LLM_STREAM is true or false, not {safe_repr(text)}")
    return {**values, "stream": stream}


def _with_file(values: Values, model: Model) -> Values:
    from windlass.models.registry.providers import model_defaults

    found = model_defaults(model.provider, model.name)
    if not found:
        return values
    given_names = {name for name, value in values.items() if value is not None}
    given_names.update(ProviderOptions.read(values).llm_options or {})
    if not _REASONING.isdisjoint(given_names):  # any option on thinking overrides all weaker ones
        given_names |= _REASONING
    try:
        checked = {
            name: check_option(name, found[name]) for name in found if name not in given_names
        }
    except ConfigError as error:
        raise ConfigError(
            f"{error}; [llm.model_defaults] says so of {model.provider}:{model.name}"
        ) from None
    return {**values, **checked}


def build_settings(values: Values, caps: Capabilities, provider: str, task: Task) -> Settings:
    """Build the settings of each call for these capabilities; `llm_options` win.

    `task` is what the door is for, where nobody says what the work is.
    """
    if provider not in values and "llm_options" not in values and SETTINGS.isdisjoint(values):
        return usual_settings(caps, task) if caps.thinking else _NO_SETTINGS
    own = ProviderDict.read(values, provider)
    options = ProviderOptions.read(values)
    if options.llm_options:
        values = {**values, **_check_llm_options(options.llm_options)}
        options = ProviderOptions.read(values)
    chosen = {name: values[name] for name in SettingOptions.__struct_fields__ if name in values}
    if beta := options.anthropic_beta_features:
        chosen["beta"] = beta
    if own.sent is not None:
        chosen["extra"] = own.sent
    return Settings(thinking=_choose_thinking(values, caps, task), **chosen)


@lru_cache(maxsize=256)
def usual_settings(caps: Capabilities, task: Task) -> Settings:
    """Build the default settings of a model that thinks; one object for many runs."""
    thinking = choose(caps, Wish(task=task))
    return _NO_SETTINGS if thinking is None else Settings(thinking=thinking)


def _check_llm_options(extra: JsonObject) -> JsonObject:
    for name in extra:
        if name not in SETTINGS:
            raise no_key("llm_options", name, SETTINGS)
    return {name: check_option(name, value) for name, value in extra.items()}


def _choose_thinking(values: Values, caps: Capabilities, task: Task) -> Any:
    options = ReasoningOptions.read(values)
    if options.reasoning_effort is not None:
        _check_agreement(options.thinking, options.reasoning_effort)
    wish = Wish(
        options.thinking,
        options.reasoning_effort,
        options.reasoning_policy,
        options.reasoning_scale,
        options.reasoning_task or task,
        SettingOptions.read(values).max_tokens,
    )
    return choose(caps, wish)


def _check_agreement(thinking: bool | JsonObject | None, effort: str) -> None:
    """Refuse two options on the same thing that contradict each other."""
    options = thinking if isinstance(thinking, dict) else {}
    if thinking is False or options.get("mode") == "disabled":
        raise ConfigError("thinking is off and reasoning_effort is given: leave one of them out")
    if options.get("effort", effort) != effort:
        raise ConfigError("thinking.effort and reasoning_effort are the same: give one of them")
