"""Every option by name, with what it accepts. No behaviour: `assemble.py` turns these into one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, cast

import msgspec

from windlass.access.caller import Caller
from windlass.agents.abort import Abort
from windlass.errors import ConfigError, nearest
from windlass.events import Event
from windlass.loop.ledger import Limits
from windlass.loop.policy import Policy
from windlass.models.base import Model, Settings
from windlass.store.base import Store

Budget: TypeAlias = Limits


class CallOptions(TypedDict, total=False):
    """What a single model call takes."""

    provider: str
    model: str | Model
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop: Sequence[str]
    seed: int
    frequency_penalty: float
    presence_penalty: float
    tool_choice: str | dict[str, Any]
    thinking: bool | dict[str, Any]
    stream: bool
    timeout: float
    messages: Sequence[Any]
    tools: Sequence[Any]


class LoopOptions(CallOptions, total=False):
    """Every option of `agent_loop`."""

    tool_format: str
    session_id: str
    store: str | Store
    on_event: Callable[[Event], None]
    abort: Abort
    caller: Caller
    deps: Any
    loop_until_done: bool
    persistent: bool
    done_sentinel: str | None
    max_iterations: int
    max_nudges: int
    nudge: str
    max_concurrent_tools: int
    token_budget: int
    budget: Budget | dict[str, float]
    closing_answer: bool
    llm_options: dict[str, Any]
    eager_tools: bool
    tool_timeout: float | None
    tool_result_max_bytes: int
    tool_arg_validation: str
    policies: Sequence[Policy[Any]]
    name: str
    run_id: str


SUPERSEDED = {
    "iterations": "max_iterations",
    "abort_signal": "abort",
    "system_prompt": "system",
    "agent_name": "name",
    "max_tool_iterations": "max_iterations",
}

_SETTINGS = frozenset(Settings.__struct_fields__) - {"extra", "parallel_tool_calls"}


def given(options: Mapping[str, Any], known: frozenset[str], door: str) -> dict[str, Any]:
    """The options as typed, checked one by one; what is unknown names the nearest right one."""
    checked: dict[str, Any] = {}
    for name, value in options.items():
        if name == "persistent":
            warnings.warn("persistent is now loop_until_done", DeprecationWarning, stacklevel=3)
            name = "loop_until_done"
        if name not in known:
            raise _unknown(name, known, door)
        check = _CHECKS.get(name)
        if check is not None:
            value = check(name, value)
        checked[name] = value
    return checked


def _unknown(name: str, known: frozenset[str], door: str) -> ConfigError:
    if name in SUPERSEDED:
        return ConfigError(f"{door} has no option {name!r}; use {SUPERSEDED[name]!r}")
    return ConfigError(f"{door} has no option {name!r}{nearest(name, known)}")


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The part of the options that goes with every model call; `llm_options` has the last word."""
    chosen = {name: options[name] for name in _SETTINGS & options.keys()}
    extra = options.get("llm_options")
    if extra:
        for name in extra:
            if name not in _SETTINGS:
                raise ConfigError(f"llm_options has no key {name!r}{nearest(name, _SETTINGS)}")
        chosen |= {name: _CHECKS[name](name, value) for name, value in extra.items()}
    return Settings(**chosen) if chosen else _PLAIN


_PLAIN = Settings()


# --------------------------------------------------------------------------- what a value may be


def _number(low: float, high: float | None = None, *, whole: bool = False) -> Any:
    def check(name: str, value: Any) -> Any:
        kinds = int if whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool) and value >= low
        if not right or (high is not None and value > high):
            kind = "a whole number" if whole else "a number"
            reach = f"from {low:g} to {high:g}" if high is not None else f"of at least {low:g}"
            raise ConfigError(f"{name} is {kind} {reach}, not {value!r:.80}")
        return value

    return check


def _optional(check: Any) -> Any:
    def check_given(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return check_given


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is True or False, not {value!r:.80}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} is a text that is not empty, not {value!r:.80}")
    return value


def _one_of(*names: str) -> Any:
    def check(name: str, value: Any) -> str:
        if value not in names:
            known = ", ".join(map(repr, names))
            hint = nearest(value, names) if isinstance(value, str) else ""
            raise ConfigError(f"{name} is one of {known}, not {value!r:.80}{hint}")
        return value

    return check


def _sentinel(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(f"{name} is None or a text that is not empty, not {value!r:.80}")
    return value


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is a function, not {value!r:.80}")
    return value


def _instance(kind: type, words: str) -> Any:
    def check(name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{name} is {words}, not {value!r:.80}")
        return value

    return check


def _stop(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not _all(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {value!r:.80}")
    return tuple(value)


def _all(value: Any, kind: type) -> bool:
    items = cast("list[Any]", value)
    return isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in items)


def _tool_choice(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        choice = cast("dict[Any, Any]", value)
        if set(choice) == {"name"} and isinstance(choice["name"], str):
            return choice
    elif value in ("auto", "none", "required"):
        return value
    raise ConfigError(f'{name} is "auto", "none", "required" or {{"name": …}}, not {value!r:.80}')


def _thinking(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    raise ConfigError(f'{name} is True, False or {{"budget_tokens": …}}, not {value!r:.80}')


def _budget(name: str, value: Any) -> Limits | None:
    if value is None or isinstance(value, Limits):
        return value
    if isinstance(value, dict):
        for key in cast("dict[str, Any]", value):
            if key not in Limits.__struct_fields__:
                raise ConfigError(
                    f"{name} has no key {key!r}{nearest(key, Limits.__struct_fields__)}"
                )
        try:
            return msgspec.convert(value, Limits)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{name}: {error}") from error
    raise ConfigError(f"{name} is a Budget or a dict, not {value!r:.80}")


def _dict(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{name} is a dict, not {value!r:.80}")
    return cast("dict[str, Any] | None", value)


def _policies(name: str, value: Any) -> tuple[Policy[Any], ...]:
    if not _all(value, Policy):
        raise ConfigError(f"{name} is a list of Policy objects, not {value!r:.120}")
    return tuple(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "max_tokens": _optional(_number(1, whole=True)),
    "temperature": _optional(_number(0, 2)),
    "top_p": _optional(_number(0, 1)),
    "top_k": _optional(_number(1, whole=True)),
    "stop": _optional(_stop),
    "seed": _optional(_number(-(2**63), whole=True)),
    "frequency_penalty": _optional(_number(-2, 2)),
    "presence_penalty": _optional(_number(-2, 2)),
    "tool_choice": _optional(_tool_choice),
    "thinking": _optional(_thinking),
    "stream": _flag,
    "timeout": _optional(_number(0)),
    "tool_format": _optional(_one_of("native", "text")),
    "session_id": _optional(_text),
    "on_event": _callable,
    "abort": _instance(Abort, "an Abort"),
    "caller": _instance(Caller, "a Caller"),
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
    "provider": _optional(_text),
}
