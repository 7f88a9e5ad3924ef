"""Definitions of agents whose output is validated, in several attempts if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NotRequired,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from windlass.agents.agent import Agent
from windlass.agents.system_prompt import SystemPrompt
from windlass.attempts.history import AttemptRecord
from windlass.attempts.policy import Attempts
from windlass.attempts.result import Attempt
from windlass.attempts.state import Execution
from windlass.attempts.tools import (
    DEFAULT_SUBMIT_TOOL,
    SUBMIT,
    HelperTool,
    OutputTool,
    build_helpers,
    check_names,
)
from windlass.attempts.validation import OutputCheck, check_validators
from windlass.engine.environment import Environment
from windlass.engine.run_options import AgentOptions
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, as_given, is_mapping
from windlass.models.base import Model
from windlass.models.structured_output import can_force_call
from windlass.options.signature import show_options
from windlass.tools.source import ToolLike

if TYPE_CHECKING:
    from types import GenericAlias, UnionType

    from windlass.engine.keyword_lists import take_agent_options
    from windlass.engine.keywords import AgentKeywords

Output = TypeVar("Output")
MAX_ATTEMPTS: Final = 3
MAX_ITERATIONS: Final = 15
_MOST: Final = 1000
#: Options of an agent that have no meaning here, and what to give in their place.
_ELSEWHERE: Final = {
    "max_turns": "validation={'max_iterations_per_attempt': …}",
    "max_iterations": "validation={'max_iterations_per_attempt': …}",
    "iteration_budget": "validation={'max_iterations_per_attempt': …}",
    "schema": "output=…",
    "response_format": "output=…",
    "schema_retries": "validation={'max_attempts': …}",
    "closing_answer": "output_tool=…",
    "output_guardrails": "validators=[…]",
    "loop_until_done": "output_tool=…",
    "additional": "helpers=[…]",
}


class OutputToolConfig(TypedDict, Generic[Output]):
    """The tool that the model gives its output with; `reflection_handler` turns reflection on."""

    name: str
    description: str
    reflection_handler: NotRequired[Callable[[Output], object]]


class ToolsConfig(TypedDict, Generic[Output]):
    """All tools of a definition in one: `tools={"helpers": […], "output": {…}}`."""

    output: OutputToolConfig[Output]
    helpers: NotRequired[Sequence[ToolLike | HelperTool]]


class ValidationConfig(TypedDict, total=False):
    """How often is tried: `{"max_attempts": 3, "max_iterations_per_attempt": 15}`."""

    max_attempts: int
    max_iterations_per_attempt: int


class ObservabilityConfig(TypedDict, total=False):
    """What is counted: `{"track_tokens": True}`."""

    track_tokens: bool


class AgentDefinition(Generic[Output]):
    """An agent for `execute_agent`, made by `define_agent`. Frozen; safe to share."""

    def __init__(
        self,
        check: OutputCheck[Output],
        output_tool: OutputTool,
        prompt: Callable[..., object] | None,
        limits: tuple[int, int],
        track_tokens: bool,
        agent: Agent[Any, Any],
    ) -> None:
        self.check, self.prompt, self.track_tokens = check, prompt, track_tokens
        self.max_attempts, self.max_iterations = limits
        self.reflects = output_tool.reflect is not None
        self.output_tool = output_tool.name
        policy = Attempts(
            check,
            reflects=self.reflects,
            max_attempts=self.max_attempts,
            max_iterations=self.max_iterations,
            build_execution=lambda: self.build_execution({}),
        )
        own = AgentOptions.read(agent.options).policies
        self.agent = agent.with_(policies=(policy, *own))
        """The agent that it runs."""
        self._forced = self.agent.with_(tool_choice="required")

    @property
    def name(self) -> str | None:
        """Its name in traces."""
        return self.agent.name

    def agent_in(self, environment: Environment) -> Agent[Any, Any]:
        """Return the agent to run there: its model must call a tool, where it can be made to."""
        plan = self.agent.plan_in(environment)
        choice = plan.frame.settings.tool_choice
        free = choice is None or choice == "auto"
        return (
            self._forced
            if free and can_force_call(plan.model.capabilities, plan.frame)
            else self.agent
        )

    def build_execution(
        self,
        callbacks: Mapping[str, Callable[..., object] | None],
        *,
        given: object = None,
        resumed: bool = False,
    ) -> Execution:
        """Build the state of an execution in this process."""
        hidden = {SUBMIT} if self.reflects else {self.output_tool}
        return Execution(
            self.output_tool,
            frozenset(hidden),
            self.max_iterations,
            callbacks,
            self.read_attempt,
            given=given,
            resumed=resumed,
        )

    def read_attempt(self, record: AttemptRecord) -> Attempt[Output]:
        """Read an attempt with its typed value."""
        call = record.validated_call
        value = None if call is None else self.check.read(call)[0]
        raw: object = None
        if call is not None:
            raw = call.arguments if call.raw is None else call.raw
        return Attempt(
            number=record.number,
            iterations=record.iterations,
            value=value,
            raw=raw,
            errors=record.errors,
            tokens=record.usage,
            cost_usd=record.cost_usd,
        )

    def __repr__(self) -> str:
        return f"<AgentDefinition {self.name or ''} -> {self.output_tool}>".replace("  ", " ")


@overload
def define_agent(
    *,
    output: type[Output],
    output_tool: OutputToolConfig[Output] | None = None,
    model: str | Model | None = None,
    system: str | SystemPrompt | None = None,
    prompt: Callable[..., object] | None = None,
    error_prompt: str | Callable[..., object] | None = None,
    helpers: Sequence[ToolLike | HelperTool] = (),
    tools: ToolsConfig[Output] | None = None,
    validators: Sequence[Callable[..., object]] = (),
    validation: ValidationConfig | None = None,
    observability: ObservabilityConfig | None = None,
    **options: Unpack[AgentKeywords],
) -> AgentDefinition[Output]:
    # Completion without a type checker follows the options to this list.
    take_agent_options(**options)
    raise NotImplementedError


@overload
def define_agent(
    *,
    output: JsonObject | UnionType | GenericAlias,
    output_tool: OutputToolConfig[Any] | None = None,
    model: str | Model | None = None,
    system: str | SystemPrompt | None = None,
    prompt: Callable[..., object] | None = None,
    error_prompt: str | Callable[..., object] | None = None,
    helpers: Sequence[ToolLike | HelperTool] = (),
    tools: ToolsConfig[Any] | None = None,
    validators: Sequence[Callable[..., object]] = (),
    validation: ValidationConfig | None = None,
    observability: ObservabilityConfig | None = None,
    **options: Unpack[AgentKeywords],
) -> AgentDefinition[Any]: ...


def define_agent(
    *,
    output: object,
    output_tool: OutputToolConfig[Any] | None = None,
    model: str | Model | None = None,
    system: str | SystemPrompt | None = None,
    prompt: Callable[..., object] | None = None,
    error_prompt: str | Callable[..., object] | None = None,
    helpers: Sequence[ToolLike | HelperTool] = (),
    tools: ToolsConfig[Any] | None = None,
    validators: Sequence[Callable[..., object]] = (),
    validation: ValidationConfig | None = None,
    observability: ObservabilityConfig | None = None,
    **options: Any,
) -> AgentDefinition[Any]:
    """Define an agent whose output is validated; `execute_agent` runs it.

    ```python
    invoice = w.define_agent(
        name="invoice", model="anthropic:claude-sonnet-4-5", output=Invoice,
        prompt=lambda mail: f"Read the invoice in this mail:\\n{mail}",
        output_tool={"name": "give_invoice", "description": "Give the invoice."},
        validators=[total_is_the_sum_of_the_lines],
    )
    ```
    Takes every option of `Agent` as well: `budget`, `approval_policy`, `name`, …
    """
    _refuse_options(options)
    if tools is not None:
        output_tool, helpers = _read_tools(tools, output_tool, helpers)
    config = _check_output_tool(output_tool)
    for name, value in (("prompt", prompt), ("error_prompt", error_prompt)):
        if (
            value is not None
            and not callable(value)
            and not (name == "error_prompt" and isinstance(as_given(value), str))
        ):
            raise ConfigError(f"{name} is a function that returns a text, not {safe_repr(value)}")
    check: OutputCheck[Any] = OutputCheck(
        output, config["name"], check_validators(validators), error_prompt
    )
    answer = OutputTool(
        config["name"], config["description"], check, config.get("reflection_handler")
    )
    helping = build_helpers(helpers)
    check_names(helping, answer.name, reflects=answer.reflect is not None)
    limits = _check_validation(validation)
    offered = [*helping, answer, *([DEFAULT_SUBMIT_TOOL] if answer.reflect is not None else [])]
    options.setdefault("max_concurrent_tools", 1)  # calls of a reply are made in their order
    turns = limits[0] * limits[1]
    agent: Agent[Any, Any] = Agent(model, system=system, tools=offered, max_turns=turns, **options)
    return AgentDefinition(
        check, answer, prompt, limits, _check_observability(observability), agent
    )


show_options(define_agent, "take_agent_options")


def _refuse_options(options: Mapping[str, object]) -> None:
    for name in options:
        if name in _ELSEWHERE:
            raise ConfigError(f"define_agent has no option {name!r}; use {_ELSEWHERE[name]}")


def _read_tools(
    tools: object, output_tool: OutputToolConfig[Any] | None, helpers: Sequence[Any]
) -> tuple[OutputToolConfig[Any] | None, Sequence[Any]]:
    """Return the output tool and the helpers of `tools={…}`."""
    if not is_mapping(tools):
        raise ConfigError(
            f"tools is {{'helpers': […], 'output': {{…}}}}, not {safe_repr(tools)}; a list goes to helpers"
        )
    if output_tool is not None or helpers:
        raise ConfigError("the tools are given twice: by tools, and by output_tool or helpers")
    for key in tools:
        if key == "additional":
            raise ConfigError("tools has no 'additional'; use 'helpers'")
        if key not in ("helpers", "output"):
            raise ConfigError(f"tools has no {key!r}{nearest(str(key), ('helpers', 'output'))}")
    return tools.get("output"), tools.get("helpers", ())


def _check_output_tool(given: object) -> OutputToolConfig[Any]:
    if not is_mapping(given):
        raise ConfigError(f"output_tool is {{'name': …, 'description': …}}, not {safe_repr(given)}")
    known = ("name", "description", "reflection_handler")
    for key in given:
        if key == SUBMIT:
            raise ConfigError(
                "submit is added with reflection: add reflection_handler or remove it"
            )
        if key not in known:
            raise ConfigError(f"output_tool has no {key!r}{nearest(str(key), known)}")
    for key in known[:2]:
        if not isinstance(given.get(key), str) or not given[key]:
            raise ConfigError(f"output_tool needs a {key}, a text that is not empty")
    handler = given.get("reflection_handler")
    if handler is not None and not callable(handler):
        raise ConfigError(
            f"reflection_handler is a function of the output, not {safe_repr(handler)}"
        )
    return cast("OutputToolConfig[Any]", dict(given))


def _check_validation(given: object) -> tuple[int, int]:
    """Return the limits on attempts, and on the iterations of each."""
    defaults = {"max_attempts": MAX_ATTEMPTS, "max_iterations_per_attempt": MAX_ITERATIONS}
    limits = _merge("validation", given, defaults)
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
            raise ConfigError(f"{name} is a whole number from 1 to {_MOST}, not {safe_repr(value)}")
    return limits["max_attempts"], limits["max_iterations_per_attempt"]


def _check_observability(given: object) -> bool:
    track = _merge("observability", given, {"track_tokens": True})["track_tokens"]
    if not isinstance(track, bool):
        raise ConfigError(f"track_tokens is True or False, not {safe_repr(track)}")
    return track


def _merge(option: str, given: object, defaults: JsonObject) -> JsonObject:
    """Return the keys of a dict with defaults for those that are left out."""
    if given is None:
        return defaults
    if not is_mapping(given):
        raise ConfigError(f"{option} is a dict, not {safe_repr(given)}")
    for key in given:
        if key not in defaults:
            raise ConfigError(f"{option} has no {key!r}{nearest(str(key), defaults)}")
    return {**defaults, **given}
