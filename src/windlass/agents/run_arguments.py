"""The arguments of one run of an agent, with the agent's own options as defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from windlass.access.caller import Caller
from windlass.agents.system_prompt import SystemPrompt, check_deps
from windlass.engine import driver
from windlass.engine.continuation import parse_run_input
from windlass.engine.driver import RunRequest, Start
from windlass.engine.environment import Environment, current_environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.limit_options import check_budget
from windlass.engine.model_options import SettingOptions
from windlass.engine.ownership import find_session
from windlass.engine.resume import resume_run
from windlass.engine.run_options import AgentOptions, RunOptions
from windlass.events import Event
from windlass.loop.ledger import Budget, Ledger
from windlass.loop.plan import Plan
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.sinks import Sink, log
from windlass.observe.callbacks import CALLBACKS, NOBODY, CallbackOptions, Watchers
from windlass.output.options import OutputOptions
from windlass.store.base import Store
from windlass.tools.filter import ToolFilterOptions

#: The options of an agent that its runs look at themselves, beside their plan.
_RUN_DEPENDS_ON = frozenset(
    (*RunOptions.__struct_fields__, *ToolFilterOptions.__struct_fields__, *CALLBACKS, "deps_type")
)
_USUAL = RunOptions()


class RunningAgent(Protocol):
    """The part of an agent that its runs need."""

    @property
    def name(self) -> str | None:
        """Its name in traces."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """The checked options that it was created with."""
        ...

    @property
    def system(self) -> str | SystemPrompt | None:
        """Its system prompt, or the function that writes one."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan of its runs in the current Runtime."""
        ...

    @property
    def is_unused(self) -> bool:
        """Whether it has not been run yet."""
        ...

    def plan_in(self, runtime: Environment) -> Plan:
        """Return the plan of its runs in a Runtime."""
        ...

    async def plan_for(
        self,
        deps: Any,
        caller: Caller | None,
        session_id: str | None,
        going_on: Store | None = None,
    ) -> Plan:
        """Return the plan of one run."""
        ...

    def oddities(self) -> tuple[str, ...]:
        """List problems of its options."""
        ...


class RunArguments:
    """The arguments of one run, with the agent's own as defaults."""

    def __init__(self, agent: RunningAgent, deps: Any, options: Mapping[str, Any]) -> None:
        self.agent, self.runtime = agent, current_environment()
        self.above: Ledger | None = None  # the books that the run shares with others
        own = agent.options
        if options:
            own = {**own, **{name: value for name, value in options.items() if value is not None}}
        self.watchers = NOBODY
        if not options and _RUN_DEPENDS_ON.isdisjoint(own):  # as most are
            self.options, self.deps, self.parks = _USUAL, deps, False
            self.store = self.runtime.store
            self.session_id = self.caller = self.abort = self.timeout = None
            return
        self.options = run = RunOptions.read(own)
        self.deps = run.deps if deps is None else deps
        self.session_id, self.caller, self.abort = run.session_id, run.caller, run.abort
        self.parks = run.on_cancel == "park"
        # the agent's own is a model call's
        self.timeout = SettingOptions.read(options).timeout if "timeout" in options else None
        place = run.store
        self.store = self.runtime.store if place is None else self.runtime.store_at(place)
        callbacks = None
        if not CALLBACKS.isdisjoint(own):
            callbacks = CallbackOptions.read(own)
            self.watchers = Watchers(callbacks, agent.name, agent.oddities)
        if ToolFilterOptions.is_given(own) and agent.is_unused:
            if callbacks is None or callbacks.on_warning is None:
                for oddity in agent.oddities():
                    log.warning("%s", oddity)
        if "deps_type" in own and (kind := AgentOptions.read(own).deps_type) is not None:
            check_deps(kind, self.deps)

    async def begin(self, prompt: Any, watchers: tuple[Callable[[Event], None], ...] = ()) -> Start:
        """Set up the run."""
        agent, transcript = self.agent, None
        if "transcript" in agent.options:
            transcript = OutputOptions.read(agent.options).transcript
        if transcript is None:
            messages = parse_run_prompt(prompt, self.session_id)
        else:
            messages = parse_run_input(prompt, None, transcript, self.session_id, "Agent.run")
        plan = await self.plan() if callable(agent.system) else agent.plan_in(self.runtime)
        sinks = watchers if self.watchers is NOBODY else (*watchers, *self.watchers.sinks)
        request = self.to_request(plan, sinks)
        begun = await driver.start(
            request, messages, self.session_id, on_pending=self.options.on_pending
        )
        begun.parks = self.parks
        if self.watchers is not NOBODY:
            self.watchers.of(begun.run)
        return begun

    async def resume(
        self,
        session_id: str,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
    ) -> Start:
        """Set up a run that goes on with a session."""
        self.session_id = session_id = await find_session(
            self.store, session_id, self.caller, self.runtime, "resume"
        )
        request = self.to_request(await self.plan(self.store), self.watchers.sinks)
        begun = await resume_run(
            request,
            session_id,
            decisions=decisions,
            results=results,
            budget=check_budget("budget", budget),
        )
        begun.parks = self.parks
        self.watchers.of(begun.run)
        return begun

    def to_request(self, plan: Plan, sinks: Sequence[Sink]) -> RunRequest:
        """Build the request for the driver."""
        options = self.options
        return RunRequest(
            plan=plan,
            environment=self.runtime,
            store=self.store,
            caller=self.caller,
            deps=self.deps,
            sinks=sinks,
            ledger=None if self.above is None else Ledger(plan.limits, self.above),
            take_over=options.take_over,
            run_id=options.run_id,
            request_id=options.request_id,
            conversation_id=options.conversation_id,
        )

    async def plan(self, going_on: Store | None = None) -> Plan:
        """Return the agent's plan, with its own system prompt where a function writes it."""
        if not callable(self.agent.system):
            return self.agent.plan
        return await self.agent.plan_for(self.deps, self.caller, self.session_id, going_on)
