"""What the value of an option may be: each is checked, by name, before anything happens."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from windlass.access.caller import Caller
from windlass.agents.abort import Abort
from windlass.errors import ConfigError, nearest, shown
from windlass.loop.ledger import Limits
from windlass.loop.policy import Policy
from windlass.models.base import Model
from windlass.models.reasoning import LEVELS, Task
from windlass.tools.tool_search import as_tool_search

_MOST = 2**63 - 1  # a journal, a database and a wire can hold it
_LONGEST = 10**9  # seconds; who wants no limit says None


def _number(low: float, high: float | None = None, *, whole: bool = False) -> Any:
    kinds = int if whole else (int, float)
    most = high if high is not None else _MOST if whole else _LONGEST

    def check(name: str, value: Any) -> Any:
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not low <= value <= most:
            kind = "a whole number" if whole else "a number"
            reach = f"from {low:g} to {most:g}" if high is not None else f"of at least {low:g}"
            if right and value > most:
                reach = f"up to {most:g}"
            raise ConfigError(f"{name} is {kind} {reach}, not {shown(value)}")
        if type(value) is int or type(value) is float:
            return value
        return int(value) if isinstance(value, int) else float(value)  # of an enum, say

    return check


def _optional(check: Any) -> Any:
    def check_given(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return check_given


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is True or False, not {shown(value)}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is a text that is not empty, not {shown(value)}")
    return words(name, value)


def words(name: str, value: Any) -> str:
    """A text that can be written down: whole characters only."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is a text, not {shown(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(
                f"{name} holds half a character (a lone surrogate): {shown(value)}"
            ) from None
    return value if type(value) is str else str.__str__(value)


def _one_of(*names: str) -> Any:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            known = ", ".join(map(repr, names))
            hint = nearest(value, names) if isinstance(value, str) else ""
            raise ConfigError(f"{name} is one of {known}, not {shown(value)}{hint}")
        return value

    return check


def _sentinel(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(f"{name} is None or a text that is not empty, not {shown(value)}")
    return None if value is None else words(name, value)


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is a function, not {shown(value)}")
    return value


def _instance(kind: type, words: str) -> Any:
    def check(name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{name} is {words}, not {shown(value)}")
        return value

    return check


def _stop(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not _all(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {shown(value)}")
    return tuple([words(name, one) for one in value])


def _all(value: Any, kind: type) -> bool:
    items = cast("list[Any]", value)
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in items)


def _tool_choice(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        choice = cast("dict[Any, Any]", value)
        if set(choice) == {"name"} and isinstance(choice["name"], str):
            words(name, choice["name"])
            return choice
    elif isinstance(value, str) and value in ("auto", "none", "required"):
        return value
    raise ConfigError(
        f'{name} is "auto", "none", "required" or {{"name": …}}, not {shown(cast("Any", value))}'
    )


def _thinking(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise ConfigError(
            f'{name} is True, False, {{"budget_tokens": …}} or {{"mode": …, "effort": …}}, '
            f"not {shown(value)}"
        )
    asked = _plain(name, cast("dict[Any, Any]", value))
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


def _policy(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "auto" if value else "off"
    return _one_of("auto", "off", *LEVELS)(name, value)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not _all(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {shown(value)}")
    return tuple([words(name, one) for one in value])


def provider_dict(name: str, value: Any) -> dict[str, Any]:
    """What a provider is told in its own words: `ollama={"num_ctx": 32768}`."""
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is a dict of what {name} alone understands, not {shown(value)}")
    own = _plain(name, cast("dict[Any, Any]", value))
    force = own.get("force_native_tool_search", False)
    if not isinstance(force, bool):
        raise ConfigError(f"{name}.force_native_tool_search is True or False, not {shown(force)}")
    return own


def _transcript(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict like reply.transcript, not {shown(value)}")
    return cast("Mapping[str, Any]", value)


def _budget(name: str, value: Any) -> Limits | None:
    if value is None or isinstance(value, Limits):
        return value
    if isinstance(value, dict):
        limits = cast("dict[str, Any]", value)
        for key in limits:
            if key not in Limits.__struct_fields__:
                raise no_key(name, key, Limits.__struct_fields__)
        return Limits(**limits)
    raise ConfigError(f"{name} is a Budget or a dict, not {shown(value)}")


def _dict(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{name} is a dict, not {shown(value)}")
    return cast("dict[str, Any] | None", value)


def no_key(name: str, key: object, known: Iterable[str]) -> ConfigError:
    hint = nearest(key, known) if isinstance(key, str) else ""
    return ConfigError(f"{name} has no key {shown(key)}{hint}")


def _plain(name: str, value: dict[Any, Any]) -> dict[str, Any]:
    """A dict that goes to a provider as it is: it must be JSON."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError, RecursionError, OverflowError):
        same = False
    if not same:
        raise ConfigError(f"{name} goes into a request, and this is not JSON: {shown(value)}")
    return value


def _caller(name: str, value: Any) -> Caller | None:
    if value is None:
        return None
    if not isinstance(value, Caller):
        raise ConfigError(f"{name} is a Caller, not {shown(value)}")
    _text("a caller's user", value.user)
    if value.tenant is not None:
        _text("a caller's tenant", value.tenant)
    for role in _roles(value):
        _text("a caller's role", role)
    return value


def _roles(caller: Caller) -> Sequence[object]:
    roles = cast("object", caller.roles)
    if not isinstance(roles, (tuple, list)):
        raise ConfigError(f"a caller's roles are a tuple of texts, not {shown(roles)}")
    return cast("Sequence[object]", roles)


def _store(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (str, os.PathLike)):
        return cast("Any", value)
    if isinstance(value, type) or not callable(getattr(value, "open", None)):
        raise ConfigError(
            f"{name} is 'memory:', 'sqlite:///name.db' or a store, not {shown(value)}"
        )
    return value


def _policies(name: str, value: Any) -> tuple[Policy[Any], ...]:
    if not _all(value, Policy):
        raise ConfigError(f"{name} is a list of Policy objects, not {shown(value, 120)}")
    return tuple(value)


def _outdated(check: Any, instead: str) -> Any:
    """Still works, and says what to use instead."""

    def check_and_warn(name: str, value: Any) -> Any:
        checked = check(name, value)
        warnings.warn(f"{name} is deprecated; use {instead}", DeprecationWarning, stacklevel=6)
        return checked

    return _optional(check_and_warn)


def _llm_caller(name: str, value: Any) -> Any:
    if value is not None and (not callable(value) or isinstance(value, (type, Model))):
        raise ConfigError(
            f"{name} is a function of a call, or compose([…])(default_llm_caller()), "
            f"not {shown(value)}"
        )
    return value


_number_of_tokens = _number(0, whole=True)
_effort = _one_of("none", *LEVELS, "max")
_THINKING: dict[str, Callable[[str, Any], Any]] = {
    "mode": _one_of("enabled", "adaptive", "effort", "disabled"),
    "effort": _effort,
    "budget_tokens": _number_of_tokens,
}
# Anthropic's, Bedrock's and DeepSeek's word; Gemini's
_NATIVE_THINKING = frozenset({"type", "thinkingBudget", "thinkingLevel", "includeThoughts"})

CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "max_tokens": _optional(_number(1, whole=True)),
    "temperature": _optional(_number(0, 2)),
    "top_p": _optional(_number(0, 1)),
    "top_k": _optional(_number(1, whole=True)),
    "stop": _optional(_stop),
    "seed": _optional(_number(-(2**63), whole=True)),
    "frequency_penalty": _optional(_number(-2, 2)),
    "presence_penalty": _optional(_number(-2, 2)),
    "tool_choice": _optional(_tool_choice),
    "tool_search": as_tool_search,
    "thinking": _optional(_thinking),
    "model_tier": _optional(_text),
    "reasoning_policy": _policy,
    "reasoning_scale": _one_of("small", "medium", "large"),
    "reasoning_task": _optional(_one_of(*get_args(Task))),
    "reasoning_effort": _optional(_effort),
    "interleaved_thinking": _optional(_flag),
    "anthropic_beta_features": _optional(_texts),
    "cache": _optional(_flag),
    "task_kind": _optional(_text),
    "response_format": _optional(_one_of("text", "json")),
    "schema_retries": _number(0, 100, whole=True),
    "transcript": _optional(_transcript),
    "stream": _flag,
    "timeout": _optional(_number(0)),
    "llm_caller": _llm_caller,
    "llm_retries": _outdated(
        _number(0, 100, whole=True),
        "llm_caller=with_retry(max_attempts=…), one more than llm_retries",
    ),
    "llm_backoff_ms": _outdated(_number(0), "llm_caller=with_retry(backoff_ms=…)"),
    "tool_format": _optional(_one_of("native", "text")),
    "session_id": _optional(_text),
    "on_event": _callable,
    "abort": _instance(Abort, "an Abort"),
    "caller": _caller,
    "store": _store,
    "loop_until_done": _flag,
    "done_sentinel": _sentinel,
    "max_iterations": _number(1, whole=True),
    "max_turns": _number(1, whole=True),
    "max_nudges": _number(0, whole=True),
    "nudge": _text,
    "max_concurrent_tools": _number(1, whole=True),
    "token_budget": _optional(_number(1, whole=True)),
    "max_token_budget": _optional(_number(1, whole=True)),
    "budget": _budget,
    "closing_answer": _flag,
    "llm_options": _dict,
    "eager_tools": _flag,
    "tool_timeout": _optional(_number(0)),
    "tool_result_max_bytes": _number(200, whole=True),
    "tool_arg_validation": _one_of("strict", "lenient", "none"),
    "policies": _policies,
    "name": _optional(_text),
    "run_id": _optional(_text),
    "request_id": _optional(_text),
    "conversation_id": _optional(_text),
    "provider": _optional(_text),
    "on_tool_call": _callable,
    "on_tool_result": _callable,
    "on_message": _callable,
}
