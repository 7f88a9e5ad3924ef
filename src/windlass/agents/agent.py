"""The agent: a model, its tools and its limits, frozen; each run is a session of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Unpack, cast, overload
from weakref import ref

from windlass.access.caller import Caller
from windlass.agents.run_arguments import RunArguments
from windlass.agents.subagent import agent_tool
from windlass.agents.system_prompt import (
    WRITTEN,
    SystemPrompt,
    context_of,
    find_or_write,
)
from windlass.engine.active_runs import detach
from windlass.engine.assemble import assemble, change_options, parse_agent_options
from windlass.engine.decisions import check_answers
from windlass.engine.driver import Start, conduct
from windlass.engine.environment import Environment, current_environment
from windlass.engine.model import without_foreign_connection
from windlass.engine.model_options import ModelOptions
from windlass.engine.results import AgentResult
from windlass.engine.run_options import AgentOptions
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import Event
from windlass.loop.plan import Plan
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.verdict import Outcome
from windlass.messages import Message
from windlass.models.base import Model
from windlass.observe.callbacks import CallbackOptions
from windlass.options.checks import words
from windlass.options.index import OF_A_RUN
from windlass.options.parse import check_given, check_option, unknown_option
from windlass.options.signature import show_method_options
from windlass.store.base import Store
from windlass.sync import wait
from windlass.toolbox.names import split_names
from windlass.toolbox.presets import TOOL_PRESETS, ToolPresetOptions
from windlass.tools.filter import ToolFilterOptions, find_filter_problems
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from types import GenericAlias, UnionType

    from windlass.engine import keyword_lists as lists
    from windlass.engine.keywords import AgentKeywords, ChangeKeywords, ResumeKeywords, RunKeywords
    from windlass.engine.stream import RunStream
    from windlass.json_types import JsonObject
    from windlass.tools.source import ToolLike

#: What `resume` takes by name.
_OF_RESUME = frozenset(CallbackOptions.__struct_fields__).union(
    ("abort", "budget", "caller", "on_cancel", "store", "take_over", "timeout")
)
#: What belongs to one run; `timeout` is the whole run's here, not a model call's.
_OF_A_RUN = OF_A_RUN | {"timeout"}

#: What a run is given: a text, a message, blocks, or the messages of a conversation.
Prompt: TypeAlias = str | Message | Sequence[Any] | Mapping[str, Any]
Deps = TypeVar("Deps")
Output = TypeVar("Output")
NewDeps = TypeVar("NewDeps")  # of an agent that is being made
NewOutput = TypeVar("NewOutput")


class Agent(Generic[Deps, Output]):
    """An agent: a model, a system prompt, tools and limits, to run, stream and resume.

    ```python
    agent = w.Agent("anthropic:claude-sonnet-4-5", system="Be brief.", tools=[add], max_turns=5)
    out = await agent.run("What is 2 + 3?")
    print(out.output)
    ```
    With `output=Invoice` the answer is an `Invoice`. An agent is frozen and keeps no state of a run,
    so one object can serve many runs. Wrong options raise `ConfigError`.
    """

    __slots__ = ("_options", "_plans", "_system")

    @overload
    def __init__(
        self: Agent[Any, str],
        model: str | Model | None = None,
        *,
        system: str | SystemPrompt | None = None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
        output: None = None,
        deps_type: None = None,
        **options: Unpack[AgentKeywords],
    ) -> None:
        # Completion without a type checker follows the options to this list.
        lists.take_agent_options(**options)

    @overload
    def __init__(
        self: Agent[NewDeps, NewOutput],
        model: str | Model | None = None,
        *,
        system: str | SystemPrompt | None = None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
        output: type[NewOutput],
        deps_type: type[NewDeps],
        **options: Unpack[AgentKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Any, NewOutput],
        model: str | Model | None = None,
        *,
        system: str | SystemPrompt | None = None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
        output: type[NewOutput],
        **options: Unpack[AgentKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[NewDeps, str],
        model: str | Model | None = None,
        *,
        system: str | SystemPrompt | None = None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
        output: None = None,
        deps_type: type[NewDeps],
        **options: Unpack[AgentKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Any, Any],
        model: str | Model | None = None,
        *,
        system: str | SystemPrompt | None = None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
        output: JsonObject | UnionType | GenericAlias,
        deps_type: type | None = None,
        **options: Unpack[AgentKeywords],
    ) -> None: ...

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        system: str | SystemPrompt | None = None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
        **options: Any,
    ) -> None:
        if model is not None:
            options["model"] = model
        if tools is not None:
            options["tools"] = tools
        self._options = parse_agent_options(options)
        if system is not None and not callable(system):
            system = words("system", system)
        self._system = system
        self._plans: dict[int, tuple[ref[Environment], Plan]] = {}

    @property
    def plan(self) -> Plan:
        """The plan of its runs in the current Runtime; built at first use."""
        return self.plan_in(current_environment())

    def plan_in(self, runtime: Environment) -> Plan:
        """Return the plan of its runs in a Runtime; built at first use."""
        known = self._plans.get(id(runtime))
        if known is not None and known[0]() is runtime:
            return known[1]
        fixed = self._system if isinstance(self._system, str) else None
        plan = assemble(runtime.with_defaults(self._options), fixed, "agent")
        if self._plans:  # nobody asks for those of environments that are gone
            self._plans = {key: kept for key, kept in self._plans.items() if kept[0]() is not None}
        self._plans[id(runtime)] = (ref(runtime), plan)
        return plan

    @property
    def options(self) -> Mapping[str, Any]:
        """The checked options that it was created with."""
        return self._options

    @property
    def system(self) -> str | SystemPrompt | None:
        """Its system prompt, or the function that returns one."""
        return self._system

    @property
    def name(self) -> str | None:
        """Its name in traces."""
        return AgentOptions.read(self._options).name

    @property
    def version(self) -> str:
        """Its version in a fleet."""
        return AgentOptions.read(self._options).version

    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Deps | None = None,
        output: type[NewOutput],
        **options: Unpack[RunKeywords],
    ) -> AgentResult[NewOutput]: ...

    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Deps | None = None,
        output: None = None,
        **options: Unpack[RunKeywords],
    ) -> AgentResult[Output]: ...

    async def run(
        self, prompt: Prompt, /, *, deps: Deps | None = None, **options: Any
    ) -> AgentResult[Any]:
        """Run the agent to the end and return an `AgentResult`; `status` says how it ended.

        `session_id`, `store`, `caller`, `deps`, `abort`, `timeout`, `on_event` and the callbacks
        belong to this run. Every option of the agent may be changed for it too: `run("…",
        max_turns=3)`. Raises `ConfigError` for wrong options and `SessionHeld` if another run has
        the session. Errors of models and tools do not raise; `out.raise_for_status()` does.
        """
        if TYPE_CHECKING:
            lists.take_run_options(**options)
        asked = self.arguments_for(deps, options)
        begun = await asked.begin(prompt)
        begun.agent = self
        run = begun.run
        going = conduct(begun, asked.runtime, abort=asked.abort, timeout=asked.timeout)
        del asked, begun, options  # they are not needed while the run goes on
        return AgentResult(run, await going)

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Deps | None = None,
        output: type[NewOutput],
        **options: Unpack[RunKeywords],
    ) -> AgentResult[NewOutput]: ...

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Deps | None = None,
        output: None = None,
        **options: Unpack[RunKeywords],
    ) -> AgentResult[Output]:
        lists.take_run_options(**options)
        raise NotImplementedError

    def run_sync(
        self, prompt: Prompt, /, *, deps: Deps | None = None, **options: Any
    ) -> AgentResult[Any]:
        """Run the agent and block until it ends; for scripts, threads and notebooks."""
        return wait(self.run(prompt, deps=deps, **options))

    @overload
    def stream(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Deps | None = None,
        output: type[NewOutput],
        **options: Unpack[RunKeywords],
    ) -> RunStream[AgentResult[NewOutput]]: ...

    @overload
    def stream(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Deps | None = None,
        output: None = None,
        **options: Unpack[RunKeywords],
    ) -> RunStream[AgentResult[Output]]:
        lists.take_run_options(**options)
        raise NotImplementedError

    def stream(
        self, prompt: Prompt, /, *, deps: Deps | None = None, **options: Any
    ) -> RunStream[AgentResult[Any]]:
        """Run the agent and yield events while it works.

        ```python
        async with agent.stream("…") as run:
            async for text in run.text():
                print(text, end="")
        out = await run.result()
        ```
        Takes the options of `run`. Leaving the block early cancels the run.
        """
        from windlass.engine.stream import RunStream

        asked = self.arguments_for(deps, options)

        async def begin(pipe: Callable[[Event], None]) -> Start:
            with asked.runtime.as_current():  # the block may be entered elsewhere
                begun = await asked.begin(prompt, (pipe,))
            begun.agent = self
            return begun

        return RunStream(begin, _result, asked.runtime, abort=asked.abort, timeout=asked.timeout)

    watch = stream

    async def resume(
        self,
        session_id: str,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        deps: Deps | None = None,
        **options: Unpack[ResumeKeywords],
    ) -> AgentResult[Output]:
        """Resume a parked or killed run, in this or any other process, and return its result.

        `decisions` answers calls that wait for approval (`{call_id: w.Allow()}`), `results` gives
        the results of calls that the host runs. A run that has ended is returned as it ended. The
        run keeps the limits that it began with, or lower ones of this agent; `budget` replaces
        them. Callbacks are those of `run`. Raises `SessionHeld` while another process has the run;
        with `take_over=True` it continues here, and the other run ends with `StaleWriter`.
        """
        if TYPE_CHECKING:
            lists.take_resume_options(**options)
        if not isinstance(cast("object", session_id), str):
            raise ConfigError(f"session_id is a text, not {safe_repr(session_id)}")
        check_answers(decisions, results)
        for name in options:
            if name not in _OF_RESUME:
                known = _OF_RESUME.union(("decisions", "results", "deps"))
                raise unknown_option(name, known, "Agent.resume")
        given = {name: value for name, value in options.items() if name != "budget"}
        asked = self.arguments_for(deps, {**given, "session_id": session_id})
        begun = await asked.resume(session_id, decisions, results, options.get("budget"))
        begun.agent = self
        outcome = await conduct(begun, asked.runtime, abort=asked.abort, timeout=asked.timeout)
        return AgentResult(begun.run, outcome)

    def detach(self, session_id: str | None = None) -> tuple[str, ...]:
        """Suspend this agent's runs in this process, or the one on this session, for a restart.

        `loop.add_signal_handler(signal.SIGTERM, agent.detach)`: each run ends here as `suspended`
        (`detached`), and `resume` continues it in any process. Returns the ids of the sessions. May
        be called from any thread.
        """
        return detach(self, session_id)

    def resume_sync(
        self,
        session_id: str,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        deps: Deps | None = None,
        **options: Unpack[ResumeKeywords],
    ) -> AgentResult[Output]:
        """Resume and block: `agent.resume_sync("s1", decisions={call_id: w.Allow()})`."""
        if TYPE_CHECKING:
            lists.take_resume_options(**options)
        going = self.resume(session_id, decisions=decisions, results=results, deps=deps, **options)
        return wait(going)

    def arguments_for(self, deps: Deps | None, options: Mapping[str, Any]) -> RunArguments:
        """Return the arguments of one run, with these options changed."""
        agent = self
        if options:
            check_given(options, _OF_A_RUN)
            changes = {name: options[name] for name in options if name not in _OF_A_RUN}
            if changes:
                agent = self._with_options(changes, "Agent.run", _OF_A_RUN)
        return RunArguments(agent, deps, options)

    @overload
    def with_(
        self, *, output: type[NewOutput], **options: Unpack[ChangeKeywords]
    ) -> Agent[Deps, NewOutput]: ...

    @overload
    def with_(
        self, *, output: None = None, **options: Unpack[ChangeKeywords]
    ) -> Agent[Deps, Output]:
        lists.take_changes(**options)
        raise NotImplementedError

    def with_(self, **options: Any) -> Agent[Deps, Any]:
        """Return a copy of the agent with some options changed: `agent.with_(max_turns=30)`."""
        return self._with_options(options, "Agent", frozenset())

    def _with_options(
        self, options: dict[str, Any], door: str, also: frozenset[str]
    ) -> Agent[Deps, Output]:
        system = options.pop("system", self._system)
        if system is not None and not callable(system):
            system = words("system", system)
        model = options.pop("model", None)
        other = cast("Agent[Deps, Output]", object.__new__(Agent))
        changed = parse_agent_options(options, door, also)
        other._options = change_options(self._options, changed)
        if model is not None:
            other._options["model"] = check_option("model", model)
            for name in ("provider", "model_tier"):
                other._options.pop(name, None)
        elif ModelOptions.read(changed).model_tier is not None:
            other._options.pop("model", None)
        other._options = without_foreign_connection(other._options, self._options)
        other._system, other._plans = system, {}
        return other

    override = with_

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool:
        """Return this agent as a tool (handoff): it takes a `task` and returns its answer.

        Use it as `w.Agent(model, tools=[digger.as_tool()])`. Each call has a session of its own, so
        a sub-agent that was parked or killed continues where its session ends.
        """
        return agent_tool(self, name, description)

    async def plan_for(
        self,
        deps: Any,
        caller: Caller | None,
        session_id: str | None,
        going_on: Store | None = None,
    ) -> Plan:
        """Return the plan of one run; a function that writes the system prompt is called for it.

        A run that is resumed uses the recorded text.
        """
        if not callable(self._system):
            return self.plan
        context = context_of(self.plan, deps, caller, session_id)
        text = await find_or_write(self._system, context, going_on)
        options = current_environment().with_defaults(self._options)
        plan = assemble(options, text, "agent")
        plan.metadata = {**(plan.metadata or {}), WRITTEN: text}
        return plan

    @property
    def is_unused(self) -> bool:
        """Whether it has not been run yet."""
        return not self._plans

    def oddities(self) -> tuple[str, ...]:
        """List problems of its options, for `on_warning` or the log."""
        if not ToolFilterOptions.is_given(self._options):
            return ()
        named, tools = split_names(ToolOptions.read(self._options).tools)
        preset = ToolPresetOptions.read(self._options).tool_preset
        of_preset = () if preset is None else TOOL_PRESETS[preset]
        names = [*[tool.name for tool in as_tools(tools)], *named, *of_preset]
        return find_filter_problems(
            ToolFilterOptions.read(self._options),
            names,
            has_preset=preset is not None,
            more_may_come=bool(AgentOptions.read(self._options).policies),
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"Agent has no {name!r}{nearest(name, dir(Agent), 'agent')}")

    def __repr__(self) -> str:
        options = ModelOptions.read(self._options)
        model = options.model or options.provider or "default model"
        return f"<Agent {self.name or ''} {model}>".replace("  ", " ")


show_method_options(
    Agent,
    {
        "__init__": "take_agent_options",
        "run": "take_run_options",
        "run_sync": "take_run_options",
        "stream": "take_run_options",
        "resume": "take_resume_options",
        "resume_sync": "take_resume_options",
        "with_": "take_changes",
    },
)


def _result(begun: Start, outcome: Outcome) -> AgentResult[Any]:
    return AgentResult(begun.run, outcome)
