"""Every option by name, with what it accepts. No behaviour: `assemble.py` turns these into one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, cast

from windlass.access.caller import Caller
from windlass.agents.abort import Abort
from windlass.agents.checks import CHECKS, no_key
from windlass.errors import ConfigError, nearest, shown
from windlass.events import Event
from windlass.loop.ledger import Limits
from windlass.loop.policy import Policy
from windlass.messages import Message
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
    llm_caller: Callable[..., Any] | None
    llm_retries: int
    llm_backoff_ms: int


class _SharedOptions(CallOptions, total=False):
    """What the loop as a function and an agent's run both take."""

    tool_format: str
    session_id: str
    store: str | Store
    on_event: Callable[[Event], None]
    abort: Abort
    caller: Caller
    loop_until_done: bool
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


class LoopOptions(_SharedOptions, total=False):
    """Every option of `agent_loop`."""

    deps: Any
    persistent: bool


class RunOptions(_SharedOptions, total=False):
    """What `Agent.run` takes: what belongs to one run, and any option of the agent, changed for it."""

    system: str
    max_turns: int
    max_token_budget: int
    on_tool_call: Callable[[str, dict[str, Any]], Any]
    on_tool_result: Callable[[str, str], Any]
    on_message: Callable[[Message], Any]


#: The options that belong to one run; `timeout` is the whole run's here, not a model call's.
OF_A_RUN = frozenset(
    {"session_id", "store", "on_event", "abort", "caller", "run_id", "timeout", "on_tool_call",
     "on_tool_result", "on_message"}
)  # fmt: skip

SUPERSEDED = {
    "iterations": "max_iterations",
    "abort_signal": "abort",
    "system_prompt": "system",
    "agent_name": "name",
    "max_tool_iterations": "max_iterations",
}

_SETTINGS = frozenset(Settings.__struct_fields__) - {"extra", "parallel_tool_calls"}


def given(
    options: Mapping[str, Any], known: frozenset[str], door: str, also: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The options as typed, checked one by one; what is unknown names the nearest right one.

    `also` are names that the door takes as arguments of their own.
    """
    checked: dict[str, Any] = {}
    for name, value in options.items():
        if name == "persistent":
            warnings.warn("persistent is now loop_until_done", DeprecationWarning, stacklevel=3)
            name = "loop_until_done"
            if name in options:
                raise ConfigError("persistent and loop_until_done are the same option: give one")
        if name not in known:
            raise _unknown(name, known | also, door)
        check = CHECKS.get(name)
        if check is not None:
            value = check(name, value)
        checked[name] = value
    return checked


def merged(options: object, more: Mapping[str, Any], door: str) -> dict[str, Any]:
    """The options of a dict, and those given by name, which have the last word."""
    if options is None:
        return dict(more)
    if not isinstance(options, Mapping):
        raise ConfigError(f"the options of {door} are a dict, not {shown(options)}")
    return {**cast("Mapping[str, Any]", options), **more}


def _unknown(name: object, known: frozenset[str], door: str) -> ConfigError:
    if not isinstance(name, str):
        return ConfigError(f"{door} has no option {shown(name)}: an option's name is a text")
    if name in SUPERSEDED:
        return ConfigError(f"{door} has no option {name!r}; use {SUPERSEDED[name]!r}")
    return ConfigError(f"{door} has no option {shown(name)}{nearest(name, known)}")


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The part of the options that goes with every model call; `llm_options` has the last word."""
    extra = options.get("llm_options")
    if not extra and _SETTINGS.isdisjoint(options):
        return _PLAIN
    chosen = {name: options[name] for name in _SETTINGS & options.keys()}
    if extra:
        for name in extra:
            if name not in _SETTINGS:
                raise no_key("llm_options", name, _SETTINGS)
        chosen |= {name: CHECKS[name](name, value) for name, value in extra.items()}
    return Settings(**chosen) if chosen else _PLAIN


_PLAIN = Settings()
_SAID = {"1": True, "true": True, "yes": True, "on": True,
         "0": False, "false": False, "no": False, "off": False}  # fmt: skip


def with_environment(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a call that leaves the machine: what nobody chose, a variable may."""
    said = os.environ.get("WINDLASS_LLM_STREAM")
    if not said or "stream" in options or "stream" in (options.get("llm_options") or ()):
        return options
    stream = _SAID.get(said.strip().lower())
    if stream is None:
        raise ConfigError(f"WINDLASS_LLM_STREAM is true or false, not {shown(said)}")
    return {**options, "stream": stream}


def check_run(options: Mapping[str, Any]) -> None:
    """What is given for one run: each is checked before anything of the run happens."""
    for name, value in options.items():
        if name in OF_A_RUN and value is not None:
            CHECKS[name](name, value)
