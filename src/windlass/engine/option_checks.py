"""What the value of an option may be: each is checked, by name, before anything happens."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, get_args, get_origin

from windlass.access.caller import Caller
from windlass.engine.open_questions import ON_PENDING
from windlass.errors import ConfigError, safe_repr
from windlass.identifiers import check_identifier, check_label
from windlass.loop.abort import Abort
from windlass.loop.ledger import Limits
from windlass.loop.policy import Policy
from windlass.models.base import Model
from windlass.models.reasoning import LEVELS, Task
from windlass.options.checks import (
    all_of,
    boolean,
    function,
    instance,
    late,
    no_key,
    number,
    one_of,
    optional,
    plain,
    text,
    texts,
    words,
)


def _sentinel(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(f"{name} is None or a text that is not empty, not {safe_repr(value)}")
    return None if value is None else words(name, value)


def _stop(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not all_of(value, str) or not all(value):
        raise ConfigError(f"{name} is a list of texts, not {safe_repr(value)}")
    return tuple([words(name, one) for one in value])


def _tool_choice(name: str, value: Any) -> Any:
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


def _thinking(name: str, value: Any) -> Any:
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


def _policy(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "auto" if value else "off"
    return one_of("auto", "off", *LEVELS)(name, value)


def provider_dict(name: str, value: Any) -> dict[str, Any]:
    """What a provider is told in its own words: `ollama={"num_ctx": 32768}`."""
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


def _transcript(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict like reply.transcript, not {safe_repr(value)}")
    return cast("Mapping[str, Any]", value)


def budget_of(name: str, value: Any) -> Limits | None:
    """The limits of a run, checked."""
    if isinstance(value, dict):
        limits = cast("dict[str, Any]", value)
        for key in limits:
            if key not in Limits.__struct_fields__:
                raise no_key(name, key, Limits.__struct_fields__)
        value = Limits(**limits)
    if value is not None and not isinstance(value, Limits):
        raise ConfigError(f"{name} is a Budget or a dict, not {safe_repr(value)}")
    if value is not None and value.per is not None:
        raise ConfigError(
            f"{name}: per={value.per!r} is for a Runtime, w.Runtime(budget=…); a run has no days"
        )
    return value


def _dict(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{name} is a dict, not {safe_repr(value)}")
    return cast("dict[str, Any] | None", value)


def _caller(name: str, value: Any) -> Caller | None:
    if value is None:
        return None
    if not isinstance(value, Caller):
        raise ConfigError(f"{name} is a Caller, not {safe_repr(value)}")
    text("a caller's user", value.user)
    if value.tenant is not None:
        text("a caller's tenant", value.tenant)
    for role in _roles(value):
        text("a caller's role", role)
    return value


def _roles(caller: Caller) -> Sequence[object]:
    roles = cast("object", caller.roles)
    if not isinstance(roles, (tuple, list)):
        raise ConfigError(f"a caller's roles are a tuple of texts, not {safe_repr(roles)}")
    return cast("Sequence[object]", roles)


def _store(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (str, os.PathLike)):
        return cast("Any", value)
    if isinstance(value, type) or not callable(getattr(value, "open", None)):
        raise ConfigError(
            f"{name} is 'memory:', 'sqlite:///name.db' or a store, not {safe_repr(value)}"
        )
    return value


def _policies(name: str, value: Any) -> tuple[Policy[Any], ...]:
    if not all_of(value, Policy):
        raise ConfigError(f"{name} is a list of Policy objects, not {safe_repr(value, 120)}")
    return tuple(value)


@late
def _tool_search() -> Any:
    from windlass.tools.search.options import as_tool_search

    return as_tool_search


def _output(name: str, value: Any) -> Any:
    if value is None or value is str:
        return None
    from windlass.output.schema import answer_schema

    try:
        answer_schema(value, name)
    except ConfigError:
        raise
    except Exception as error:  # an object may do what it likes when it is looked at
        raise ConfigError(f"{name} is a type or a JSON Schema, not {safe_repr(value)}") from error
    return value


def _deps_type(name: str, value: Any) -> Any:
    if value is None or isinstance(value, type) or get_origin(value) is not None:
        return value
    raise ConfigError(f"{name} is a type, not {safe_repr(value)}")


def _deprecate(check: Any, instead: str) -> Any:
    """Still works, and says what to use instead."""

    def check_and_warn(name: str, value: Any) -> Any:
        checked = check(name, value)
        warnings.warn(f"{name} is deprecated; use {instead}", DeprecationWarning, stacklevel=6)
        return checked

    return optional(check_and_warn)


def _llm_caller(name: str, value: Any) -> Any:
    if value is not None and (not callable(value) or isinstance(value, (type, Model))):
        raise ConfigError(
            f"{name} is a function of a call, or compose([…])(default_llm_caller()), "
            f"not {safe_repr(value)}"
        )
    return value


def _name(name: str, value: Any) -> str:
    """A name that is printed, traced and may become a tool's: as strict as a session's id."""
    return check_identifier(text(name, value), name)


def _label(name: str, value: Any) -> str:
    """An id that somebody else made up: one line of text."""
    return check_label(text(name, value), name)


_number_of_tokens = number(0, whole=True)
_effort = one_of("none", *LEVELS, "max")
_THINKING: dict[str, Callable[[str, Any], Any]] = {
    "mode": one_of("enabled", "adaptive", "effort", "disabled"),
    "effort": _effort,
    "budget_tokens": _number_of_tokens,
}
# Anthropic's, Bedrock's and DeepSeek's word; Gemini's
_NATIVE_THINKING = frozenset({"type", "thinkingBudget", "thinkingLevel", "includeThoughts"})

CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "max_tokens": optional(number(1, whole=True)),
    "temperature": optional(number(0, 2)),
    "top_p": optional(number(0, 1)),
    "top_k": optional(number(1, whole=True)),
    "stop": optional(_stop),
    "seed": optional(number(-(2**63), whole=True)),
    "frequency_penalty": optional(number(-2, 2)),
    "presence_penalty": optional(number(-2, 2)),
    "tool_choice": optional(_tool_choice),
    "tool_search": _tool_search,
    "thinking": optional(_thinking),
    "model_tier": optional(text),
    "reasoning_policy": _policy,
    "reasoning_scale": one_of("small", "medium", "large"),
    "reasoning_task": optional(one_of(*get_args(Task))),
    "reasoning_effort": optional(_effort),
    "interleaved_thinking": optional(boolean),
    "anthropic_beta_features": optional(texts),
    "cache": optional(boolean),
    "parallel_tool_calls": optional(boolean),
    "task_kind": optional(text),
    "response_format": optional(one_of("text", "json")),
    "schema_retries": number(0, 100, whole=True),
    "transcript": optional(_transcript),
    "stream": boolean,
    "timeout": optional(number(0)),
    "llm_caller": _llm_caller,
    "llm_retries": _deprecate(
        number(0, 100, whole=True),
        "llm_caller=with_retry(max_attempts=…), one more than llm_retries",
    ),
    "llm_backoff_ms": _deprecate(number(0), "llm_caller=with_retry(backoff_ms=…)"),
    "tool_format": optional(one_of("native", "text")),
    "session_id": optional(text),
    "take_over": boolean,
    "on_cancel": one_of("cancel", "park"),
    "on_pending": one_of(*ON_PENDING),
    "on_event": function,
    "abort": instance(Abort, "an Abort"),
    "caller": _caller,
    "store": _store,
    "loop_until_done": boolean,
    "done_sentinel": _sentinel,
    "max_iterations": number(1, whole=True),
    "max_turns": number(1, whole=True),
    "max_nudges": number(0, whole=True),
    "nudge": text,
    "max_concurrent_tools": number(1, whole=True),
    "max_calls_per_reply": number(1, whole=True),
    "token_budget": optional(number(1, whole=True)),
    "max_token_budget": optional(number(1, whole=True)),
    "budget": budget_of,
    "max_resume_attempts": optional(number(0, whole=True)),
    "closing_answer": boolean,
    "llm_options": _dict,
    "eager_tools": boolean,
    "tool_timeout": optional(number(0)),
    "tool_result_max_bytes": number(200, whole=True),
    "tool_arg_validation": one_of("strict", "lenient", "none"),
    "policies": _policies,
    "name": optional(_name),
    "run_id": optional(_label),
    "request_id": optional(_label),
    "conversation_id": optional(_label),
    "provider": optional(text),
    "on_tool_call": function,
    "on_tool_result": function,
    "on_message": function,
    "on_warning": function,
    "on_trace": function,
    "task_id": optional(_label),
    "trace_agent": optional(_name),
    "role": optional(text),
    "allowed_tools": optional(texts),
    "disallowed_tools": optional(texts),
    "output": _output,
    "deps_type": _deps_type,
}
