"""The options that say which model is asked, and with which settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, cast, get_args

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.models.base import Model
from windlass.models.reasoning import LEVELS, Policy, Scale, Task
from windlass.options.checks import (
    all_of,
    boolean,
    no_key,
    number,
    one_of,
    optional,
    plain,
    text,
    texts,
    words,
)
from windlass.options.group import (
    CALLS,
    EVERYWHERE,
    LOOPS,
    Check,
    Door,
    Flag,
    Option,
    OptionGroup,
)
from windlass.redaction.redactor import Secret, mask_url

_NOWHERE: Final[frozenset[Door]] = frozenset()


def _check_llm_caller(name: str, value: Any) -> Any:
    if value is not None and (not callable(value) or isinstance(value, (type, Model))):
        raise ConfigError(
            f"{name} is a function of a call, or compose([…])(default_llm_caller()), "
            f"not {safe_repr(value)}"
        )
    return value


def _check_model(name: str, value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ConfigError(
            f"{name} is empty: name one, such as 'anthropic:claude-sonnet-4-5', or leave it out"
        )
    return value


def _check_api_key(name: str, value: Any) -> Secret:
    if isinstance(value, Secret) and value.reveal().strip():
        return value
    if not isinstance(value, str) or not value.strip():
        # the value is not shown: it may be a key in the wrong form
        kind = "an empty text" if isinstance(value, str | Secret) else type(value).__name__
        raise ConfigError(f"{name} is a text or a Secret, not {kind}")
    return Secret(value)


def _check_base_url(name: str, value: Any) -> str:
    address = text(name, value)
    if not address.startswith(("http://", "https://")):
        raise ConfigError(
            f"{name} is an address such as 'https://llm.example.com/v1', not {mask_url(address)!r}"
        )
    return address


class Headers(dict[str, str | Secret]):
    """Headers of requests, whose values are never shown."""

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"

    __str__ = __repr__


def _check_headers(name: str, value: Any) -> Headers:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict of texts, not {type(value).__name__}")
    headers = Headers()
    for key, held in cast("Mapping[Any, Any]", value).items():
        plain = held.reveal() if isinstance(held, Secret) else held
        if not isinstance(key, str) or _HEADER_NAME.fullmatch(key) is None:
            raise ConfigError(f"{name}: {safe_repr(key)} is no name of a header")
        if not isinstance(plain, str) or not _HEADER_VALUE.fullmatch(plain):
            raise ConfigError(f"{name}[{key!r}] is a text of one line")
        headers[key] = held
    return headers


_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class ModelOptions(OptionGroup, frozen=True, kw_only=True):
    """The model, its address, key and retries."""

    doors: ClassVar[frozenset[Door]] = EVERYWHERE

    model: Annotated[
        str | Model | None,
        Option(
            _check_model,
            flags=(
                Flag(
                    names=("--model", "-m"),
                    metavar="PROVIDER:NAME",
                    note="`windlass models` lists some.",
                ),
            ),
            choice="model",
        ),
    ] = None
    """The model, as `anthropic:claude-sonnet-4-5`. A `Model` object, in code."""
    provider: Annotated[
        str | None,
        Option(
            optional(text),
            flags=(
                Flag(
                    names=("--provider", "-p"),
                    metavar="NAME",
                    note="Without --model: its default model. `mock` needs no key.",
                ),
            ),
            choice="model",
        ),
    ] = None
    """The provider that serves the model."""
    model_tier: Annotated[str | None, Option(optional(text), choice="model")] = None
    """A tier of models from the configuration, in place of a name."""
    api_key: Annotated[
        Secret | None,
        Option(
            optional(_check_api_key), accepts="str | Secret | None", scope="start", in_file=False
        ),
    ] = None
    """The key of a model given by name, in place of the environment's. It is never stored."""
    base_url: Annotated[
        str | None, Option(optional(_check_base_url), scope="start", in_file=False)
    ] = None
    """The address of a model given by name: a proxy, a gateway, a server of your own."""
    headers: Annotated[
        Headers | None,
        Option(
            optional(_check_headers),
            accepts="Mapping[str, str | Secret] | None",
            scope="start",
            in_file=False,
        ),
    ] = None
    """Headers of every request to a model given by name. They are never stored."""
    llm_caller: Annotated[Any, Option(_check_llm_caller, accepts="Callable[..., Any] | None")] = (
        None
    )
    """Layers around each model call: retry, fallback, cache, rate limit."""
    llm_retries: Annotated[
        int | None,
        Option(
            optional(number(0, 100, whole=True)),
            deprecated="llm_caller=with_retry(max_attempts=…), one more than llm_retries",
        ),
    ] = None
    """Retries of a failed model call."""
    llm_backoff_ms: Annotated[
        float | None,
        Option(optional(number(0)), deprecated="llm_caller=with_retry(backoff_ms=…)"),
    ] = None
    """Milliseconds before the first retry of a model call."""


def _check_stop(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not all_of(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {safe_repr(value)}")
    return tuple([words(name, one) for one in value])


def _check_tool_choice(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        choice = cast("dict[Any, Any]", value)
        if set(choice) == {"name"} and isinstance(choice["name"], str):
            words(name, choice["name"])
            return choice
    elif isinstance(value, str) and value in ("auto", "none", "required"):
        return value
    raise ConfigError(
        f'{name} is "auto", "none", "required" or {{"name": …}}, not {safe_repr(cast("Any", value))}'
    )


_check_effort: Check = one_of("none", *LEVELS, "max")
_THINKING: dict[str, Check] = {
    "mode": one_of("enabled", "adaptive", "effort", "disabled"),
    "effort": _check_effort,
    "budget_tokens": number(0, whole=True),
}
# Anthropic's, Bedrock's and DeepSeek's word; Gemini's
_NATIVE_THINKING = frozenset({"type", "thinkingBudget", "thinkingLevel", "includeThoughts"})


def _check_thinking(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise ConfigError(
            f'{name} is True, False, {{"budget_tokens": …}} or {{"mode": …, "effort": …}}, '
            f"not {safe_repr(value)}"
        )
    asked = plain(name, cast("dict[Any, Any]", value))
    if not asked:
        raise ConfigError(f"{name} is an empty dict: say True, or what is wanted")
    if not _NATIVE_THINKING.isdisjoint(asked):
        return asked  # in a provider's own words
    for key, given in asked.items():
        check = _THINKING.get(key)
        if check is None:
            raise no_key(name, key, _THINKING)
        check(f"{name}.{key}", given)
    return asked


def _check_reasoning_policy(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "auto" if value else "off"
    return one_of("auto", "off", *LEVELS)(name, value)


class ReasoningOptions(OptionGroup, frozen=True, kw_only=True):
    """Thinking and reasoning."""

    doors: ClassVar[frozenset[Door]] = EVERYWHERE
    choice: ClassVar[str | None] = "reasoning"

    thinking: Annotated[
        bool | JsonObject | None,
        Option(optional(_check_thinking), accepts="bool | dict[str, Any] | None"),
    ] = None
    """Whether the model thinks: True, False, a budget, an effort, or the provider's format."""
    reasoning_policy: Annotated[
        Policy,
        Option(_check_reasoning_policy, aliases=("thinking_policy",), accepts="str | bool"),
    ] = "auto"
    """How much the model thinks if `thinking` is not given: `auto`, `off` or a level."""
    reasoning_scale: Annotated[
        Scale, Option(one_of("small", "medium", "large"), aliases=("problem_scale",))
    ] = "medium"
    """The size of the problem, for `auto`."""
    reasoning_task: Annotated[Task | None, Option(optional(one_of(*get_args(Task))))] = None
    """The kind of work, for `auto`."""
    reasoning_effort: Annotated[str | None, Option(optional(_check_effort))] = None
    """The reasoning effort as a level, for example `high`."""


class SettingOptions(OptionGroup, frozen=True, kw_only=True):
    """Model settings: temperature, max_tokens, tool_choice."""

    doors: ClassVar[frozenset[Door]] = EVERYWHERE

    max_tokens: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """The most tokens of a reply."""
    temperature: Annotated[float | None, Option(optional(number(0, 2)))] = None
    """The randomness of the reply."""
    top_p: Annotated[float | None, Option(optional(number(0, 1)))] = None
    """Choose among the most likely tokens with this total probability."""
    top_k: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """Choose among this many of the most likely tokens."""
    stop: Annotated[
        tuple[str, ...] | None, Option(optional(_check_stop), accepts="str | Sequence[str] | None")
    ] = None
    """Texts at which a reply ends."""
    seed: Annotated[int | None, Option(optional(number(-(2**63), whole=True)))] = None
    """A number that makes replies repeatable, if the provider supports it."""
    frequency_penalty: Annotated[float | None, Option(optional(number(-2, 2)))] = None
    """A penalty for tokens by how often they occurred."""
    presence_penalty: Annotated[float | None, Option(optional(number(-2, 2)))] = None
    """A penalty for tokens that have occurred."""
    tool_choice: Annotated[
        str | JsonObject | None,
        Option(
            optional(_check_tool_choice),
            doors=CALLS,
            accepts="str | dict[str, Any] | None",
            in_file=False,
        ),
    ] = None
    """Whether the model must call a tool: `auto`, `none`, `required`, or `{"name": …}`."""
    interleaved_thinking: Annotated[bool | None, Option(optional(boolean), doors=CALLS)] = None
    """Whether the model thinks between tool calls."""
    cache: Annotated[bool | None, Option(optional(boolean), doors=CALLS)] = None
    """Whether the provider's prompt cache is used."""
    parallel_tool_calls: Annotated[bool | None, Option(optional(boolean), doors=_NOWHERE)] = None
    """Whether a reply may have several calls; in `llm_options`."""
    stream: Annotated[bool | None, Option(boolean)] = None
    """Whether the reply is streamed from the provider."""
    timeout: Annotated[float | None, Option(optional(number(0)))] = None
    """Seconds of a model call with its retries; given to a run: seconds of the whole run."""
    task_kind: Annotated[str | None, Option(optional(text))] = None
    """A label of the call, for LLM callers and the record."""


def _check_dict(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{name} is a dict, not {safe_repr(value)}")
    return cast("JsonObject | None", value)


class ProviderOptions(OptionGroup, frozen=True, kw_only=True):
    """Options of single providers."""

    anthropic_beta_features: Annotated[
        tuple[str, ...] | None,
        Option(optional(texts), doors=CALLS, accepts="Sequence[str] | None"),
    ] = None
    """Names of Anthropic beta features to turn on."""
    llm_options: Annotated[
        JsonObject | None, Option(_check_dict, accepts="dict[str, Any] | None", doors=LOOPS)
    ] = None
    """Settings of every model call of the run; they override the others."""


#: The options that `llm_options` and a model's defaults may hold.
SETTINGS: Final = frozenset(
    {
        *SettingOptions.__struct_fields__,
        *ReasoningOptions.__struct_fields__,
        "anthropic_beta_features",
    }
)


def check_provider_dict(name: str, value: Any) -> JsonObject:
    """Check what a provider is told in its own words: `ollama={"num_ctx": 32768}`."""
    if not isinstance(value, dict):
        raise ConfigError(
            f"{name} is a dict of what {name} alone understands, not {safe_repr(value)}"
        )
    own = plain(name, cast("dict[Any, Any]", value))
    force = own.get("force_native_tool_search", False)
    if not isinstance(force, bool):
        raise ConfigError(
            f"{name}.force_native_tool_search is True or False, not {safe_repr(force)}"
        )
    return own


class ProviderDict(msgspec.Struct, frozen=True):
    """The dict of a provider's own words, taken apart."""

    sent: JsonObject | None = None
    force_native_tool_search: bool = False

    @staticmethod
    def read(values: Mapping[str, Any], provider: str) -> ProviderDict:
        """Take the dict of this provider out of the options."""
        own = values.get(provider)
        if not own:
            return NO_PROVIDER_DICT
        sent = {name: value for name, value in own.items() if name != "force_native_tool_search"}
        return ProviderDict(sent or None, own.get("force_native_tool_search", False))


NO_PROVIDER_DICT: Final = ProviderDict()
