"""Every option by name, with what it accepts. No behaviour: `assemble.py` turns these into one.

Types are written as values, not as text: a TypedDict would compile the text of each when it is made.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from windlass.access.caller import Caller
from windlass.engine.authority_options import CHECKS as AUTHORITY
from windlass.engine.authority_options import AuthorityOptions
from windlass.engine.context_options import CHECKS as CONTEXT
from windlass.engine.context_options import ContextOptions
from windlass.engine.judge_options import CHECKS as JUDGEMENT
from windlass.engine.judge_options import JudgementOptions
from windlass.engine.open_questions import OnPending
from windlass.engine.option_checks import CHECKS, provider_dict
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import Event
from windlass.loop.abort import Abort
from windlass.loop.ledger import Limits
from windlass.loop.policy import Policy
from windlass.messages import Message, ToolResult
from windlass.models.base import Model
from windlass.models.registry.scope import ENDPOINTS, environ
from windlass.store.base import Store

if TYPE_CHECKING:
    from windlass.observe.trace_events import TraceEvent
    from windlass.policies.judges.options import DoneJudge
    from windlass.tools.search.options import ToolSearch

Budget: TypeAlias = Limits


class ModelOptions(TypedDict, total=False):
    """Which model is asked, and how it is to answer."""

    provider: str
    model: str | Model
    model_tier: str
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop: Sequence[str]
    seed: int
    frequency_penalty: float
    presence_penalty: float
    thinking: bool | dict[str, Any]
    reasoning_policy: str | bool
    thinking_policy: str | bool
    reasoning_scale: str
    problem_scale: str
    reasoning_task: str
    reasoning_effort: str
    stream: bool
    timeout: float
    task_kind: str
    caller: Caller
    request_id: str
    conversation_id: str
    llm_caller: Callable[..., Any] | None
    llm_retries: int
    llm_backoff_ms: int


class TurnOptions(ModelOptions, total=False):
    """What every turn of a conversation takes, a single call's and each of a loop."""

    tool_choice: str | dict[str, Any]
    interleaved_thinking: bool
    anthropic_beta_features: Sequence[str]
    cache: bool
    messages: Sequence[Any]
    tools: Sequence[Any]
    tool_search: "bool | str | dict[str, Any] | ToolSearch"


class CallOptions(TurnOptions, total=False):
    """What a single model call takes."""

    response_format: str
    schema: Any
    schema_retries: int
    transcript: Mapping[str, Any]


class ProviderOptions(TypedDict, total=False):
    """What one provider alone understands, under its name; any configured provider has such a dict."""

    anthropic: dict[str, Any]
    openai: dict[str, Any]
    openrouter: dict[str, Any]
    huggingface: dict[str, Any]
    ollama: dict[str, Any]
    local: dict[str, Any]
    llamacpp: dict[str, Any]
    mlx: dict[str, Any]
    together: dict[str, Any]
    groq: dict[str, Any]
    deepseek: dict[str, Any]
    fireworks: dict[str, Any]
    mistral: dict[str, Any]
    gemini: dict[str, Any]
    vertex: dict[str, Any]
    bedrock: dict[str, Any]


class CompletionKeywords(ModelOptions, ProviderOptions, total=False):
    """What `llm_completion` takes by name."""


class CallKeywords(CallOptions, ProviderOptions, total=False):
    """What `llm_call` and `llm_stream` take by name."""


class _SharedOptions(TurnOptions, JudgementOptions, ContextOptions, AuthorityOptions, total=False):
    """What the loop as a function and an agent's run both take."""

    tool_format: str
    session_id: str
    take_over: bool
    on_cancel: Literal["cancel", "park"]
    on_pending: OnPending
    store: str | Store
    on_event: Callable[[Event], Any]
    abort: Abort
    loop_until_done: bool
    done_sentinel: str | None
    max_iterations: int
    max_nudges: int
    nudge: str
    max_concurrent_tools: int
    max_calls_per_reply: int
    token_budget: int
    budget: Budget | dict[str, float]
    max_resume_attempts: int | None
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


class LoopKeywords(LoopOptions, ProviderOptions, total=False):
    """What `agent_loop` takes by name."""


class TurnKeywords(LoopKeywords, total=False):
    """What `agent_turn` takes by name."""

    system: str
    judge: "bool | dict[str, Any] | DoneJudge"


class WatchOptions(TypedDict, total=False):
    """Who watches a run, and what its traces say: `agent.run("…", on_trace=tracer, task_id="t1")`."""

    on_event: Callable[[Event], Any]
    on_tool_call: Callable[[str, dict[str, Any]], Any]
    on_tool_result: Callable[[str, ToolResult], Any]
    on_message: Callable[[Message], Any]
    on_warning: Callable[[str], Any]
    on_trace: "Callable[[TraceEvent], Any]"
    task_id: str
    trace_agent: str


class RunOptions(_SharedOptions, ProviderOptions, WatchOptions, total=False):
    """What `Agent.run` takes: what belongs to one run, and any option of the agent, changed for it."""

    system: str
    max_turns: int
    max_token_budget: int
    role: str
    allowed_tools: Sequence[str]
    disallowed_tools: Sequence[str]
    output: Any
    deps_type: Any


#: The options that belong to one run; `timeout` is the whole run's here, not a model call's.
OF_A_RUN = frozenset(
    {
        "session_id",
        "store",
        "on_event",
        "abort",
        "caller",
        "run_id",
        "request_id",
        "conversation_id",
        "timeout",
        "task_id",
        "trace_agent",
        "on_tool_call",
        "on_tool_result",
        "on_message",
        "on_warning",
        "on_trace",
        "take_over",
        "on_cancel",
        "on_pending",
    }
)

SUPERSEDED = {
    "iterations": "max_iterations",
    "abort_signal": "abort",
    "system_prompt": "system",
    "agent_name": "name",
    "agent_role": "role",
    "max_tool_iterations": "max_iterations",
}

_CHECKS = {**AUTHORITY, **CONTEXT, **JUDGEMENT, **CHECKS}
_ALSO_CALLED = {
    "persistent": "loop_until_done",
    "thinking_policy": "reasoning_policy",
    "problem_scale": "reasoning_scale",
    "prompt_overrides": "prompts",
}


def validate_options(
    options: Mapping[str, Any], known: frozenset[str], door: str, also: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The options as typed, checked one by one; what is unknown names the nearest right one.

    `also` are names that the door takes as arguments of their own.
    """
    checked: dict[str, Any] = {}
    for typed, value in options.items():
        name, check = typed, _CHECKS.get(typed)
        if name not in known:
            check = _provider_check(name, options)
            if check is None:
                raise unknown(name, known | also, door)
        elif name in _ALSO_CALLED:
            if name == "persistent":
                warnings.warn("persistent is now loop_until_done", DeprecationWarning, stacklevel=3)
            first = _ALSO_CALLED[name]
            if first in options:
                raise ConfigError(f"{name} and {first} are the same option: give one")
            name, check = first, _CHECKS[first]
        if check is not None:
            value = check(typed, value)
        checked[name] = value
    return checked


def _provider_check(name: object, options: Mapping[str, Any]) -> Any:
    """What checks a provider's own dict, if the name is one of a provider."""
    if not isinstance(name, str):
        return None
    model = options.get("model")
    if isinstance(model, Model) and model.provider == name:
        return provider_dict
    return provider_dict if name in ENDPOINTS or name == "mock" else None


def merge_options(options: object, more: Mapping[str, Any], door: str) -> dict[str, Any]:
    """The options of a dict, and those given by name, which have the last word."""
    if options is None:
        return dict(more)
    if not isinstance(options, Mapping):
        raise ConfigError(f"the options of {door} are a dict, not {safe_repr(options)}")
    return {**cast("Mapping[str, Any]", options), **more}


def unknown(name: object, known: frozenset[str], door: str) -> ConfigError:
    """The error for an option that the door does not have."""
    if not isinstance(name, str):
        return ConfigError(f"{door} has no option {safe_repr(name)}: an option's name is a text")
    if name in SUPERSEDED:
        return ConfigError(f"{door} has no option {name!r}; use {SUPERSEDED[name]!r}")
    if name in CallOptions.__optional_keys__:
        return ConfigError(f"{door} has no option {name!r}: it is one of llm_call")
    return ConfigError(f"{door} has no option {safe_repr(name)}{nearest(name, known)}")


_SAID = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def with_environment(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a call that leaves the machine: what nobody chose, a variable may."""
    said = environ().get("WINDLASS_LLM_STREAM")
    if not said or "stream" in options or "stream" in (options.get("llm_options") or ()):
        return options
    stream = _SAID.get(said.strip().lower())
    if stream is None:
        raise ConfigError(f"WINDLASS_LLM_STREAM is true or false, not {safe_repr(said)}")
    return {**options, "stream": stream}


def check_run(options: Mapping[str, Any]) -> None:
    """What is given for one run: each is checked before anything of the run happens."""
    for name, value in options.items():
        if name in OF_A_RUN and value is not None:
            CHECKS[name](name, value)
