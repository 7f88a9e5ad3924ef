"""The agent: a model, its tools and its limits, frozen; each run is a session of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from windlass.access.caller import Caller
from windlass.agents import driver
from windlass.agents.abort import Abort
from windlass.agents.assemble import assemble, check_agent
from windlass.agents.driver import Allow, Deny, Start, check_answers, conduct
from windlass.agents.options import check_run, words
from windlass.agents.prompt import asked_to_run
from windlass.agents.results import AgentResult
from windlass.agents.runtime import Runtime, current_runtime
from windlass.agents.streaming import RunStream
from windlass.agents.watching import sinks_of
from windlass.errors import ConfigError, shown
from windlass.events import Event
from windlass.loop.run import Plan
from windlass.loop.verdict import Outcome
from windlass.messages import Message
from windlass.models.base import Model
from windlass.store.base import Store
from windlass.tools.base import Tool, ToolContext

Deps = TypeVar("Deps")
Output = TypeVar("Output")


class Agent(Generic[Deps, Output]):
    """An agent you can run, stream, resume, and hand to another agent as a tool:

    ```python
    agent = w.Agent("anthropic:claude-sonnet-4-5", system="Be brief.", tools=[add], max_turns=5)
    out = await agent.run("What is 2 + 3?")
    print(out.output)
    ```
    It holds no state of a run: share it freely.
    """

    __slots__ = ("_model", "_options", "_plan", "_system")

    def __init__(
        self,
        model: str | Model | None = None,
        /,
        *,
        system: str | Callable[..., Any] | None = None,
        tools: Sequence[Any] | Any | None = None,
        **options: Any,
    ) -> None:
        if tools is not None:
            options["tools"] = tools
        self._options = check_agent(options)
        if model is not None:
            self._options["model"] = model
        if system is not None and not callable(system):
            system = words("system", system)
        self._system = system
        self._plan: Plan | None = None

    @property
    def plan(self) -> Plan:
        """What its runs are made of; assembled at first use."""
        if self._plan is None:
            fixed = self._system if isinstance(self._system, str) else None
            self._plan = assemble(self._options, fixed, "agent")
        return self._plan

    @property
    def name(self) -> str | None:
        """Its name in traces."""
        return self._options.get("name")

    # ----------------------------------------------------------------- running

    async def run(
        self,
        prompt: str | Message | Sequence[Any] | Mapping[str, Any],
        /,
        *,
        deps: Deps | None = None,
        session_id: str | None = None,
        caller: Caller | None = None,
        abort: Abort | None = None,
        timeout: float | None = None,
        run_id: str | None = None,
        store: str | Store | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_tool_call: Callable[[str, dict[str, Any]], None] | None = None,
        on_tool_result: Callable[[str, str], None] | None = None,
        on_message: Callable[[Message], None] | None = None,
        **overrides: Any,
    ) -> AgentResult[Output]:
        """Run to the end and return the result; its `status` says how it ended."""
        if not (
            session_id is caller is abort is timeout is run_id is store
            is on_event is on_tool_call is on_tool_result is on_message is None
        ):  # fmt: skip
            check_run(
                session_id=session_id, caller=caller, abort=abort, timeout=timeout, run_id=run_id,
                store=store, on_event=on_event, on_tool_call=on_tool_call,
                on_tool_result=on_tool_result, on_message=on_message,
            )  # fmt: skip
        agent = self._changed(overrides, "Agent.run", _OF_A_RUN) if overrides else self
        runtime = current_runtime()
        plan = agent.plan
        chosen = agent._options
        sinks = sinks_of(
            on_event or chosen.get("on_event"), on_tool_call, on_tool_result, on_message
        )
        caller = caller or chosen.get("caller")
        deps = deps if deps is not None else chosen.get("deps")
        session_id = session_id or chosen.get("session_id")
        messages = asked_to_run(prompt, session_id)
        if callable(agent._system):
            plan = await agent._framed(deps, caller, session_id)
        begun = await driver.start(
            plan,
            messages,
            runtime,
            session_id=session_id,
            store=_chosen(runtime, store, chosen),
            caller=caller,
            deps=deps,
            sinks=sinks,
            run_id=run_id,
        )
        outcome = await conduct(begun, runtime, abort=abort or chosen.get("abort"), timeout=timeout)
        return AgentResult(begun.run, outcome)

    def run_sync(self, prompt: Any, /, **options: Any) -> AgentResult[Output]:
        """`run`, blocking; works in scripts, threads and notebooks."""
        from windlass.sync import wait

        return wait(self.run(prompt, **options))

    def stream(
        self,
        prompt: str | Message | Sequence[Any] | Mapping[str, Any],
        /,
        *,
        deps: Deps | None = None,
        session_id: str | None = None,
        caller: Caller | None = None,
        abort: Abort | None = None,
        timeout: float | None = None,
        run_id: str | None = None,
        store: str | Store | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_tool_call: Callable[[str, dict[str, Any]], None] | None = None,
        on_tool_result: Callable[[str, str], None] | None = None,
        on_message: Callable[[Message], None] | None = None,
        **overrides: Any,
    ) -> RunStream[AgentResult[Output]]:
        """Run and watch: `async with agent.stream("…") as run: async for text in run.text(): …`

        Leaving the block early cancels the run.
        """
        if not (
            session_id is caller is abort is timeout is run_id is store
            is on_event is on_tool_call is on_tool_result is on_message is None
        ):  # fmt: skip
            check_run(
                session_id=session_id, caller=caller, abort=abort, timeout=timeout, run_id=run_id,
                store=store, on_event=on_event, on_tool_call=on_tool_call,
                on_tool_result=on_tool_result, on_message=on_message,
            )  # fmt: skip
        agent = self._changed(overrides, "Agent.run", _OF_A_RUN) if overrides else self
        runtime = current_runtime()
        chosen = agent._options
        sinks = sinks_of(
            on_event or chosen.get("on_event"), on_tool_call, on_tool_result, on_message
        )
        caller = caller or chosen.get("caller")
        deps = deps if deps is not None else chosen.get("deps")

        session = session_id or chosen.get("session_id")

        async def begin(pipe: Callable[[Event], None]) -> Start:
            plan = agent.plan
            messages = asked_to_run(prompt, session)
            if callable(agent._system):
                plan = await agent._framed(deps, caller, session)
            return await driver.start(
                plan,
                messages,
                runtime,
                session_id=session,
                store=_chosen(runtime, store, chosen),
                caller=caller,
                deps=deps,
                sinks=(pipe, *sinks),
                run_id=run_id,
            )

        return RunStream(
            begin, _result, runtime, abort=abort or chosen.get("abort"), timeout=timeout
        )

    watch = stream

    async def resume(
        self,
        session_id: str,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        deps: Deps | None = None,
        caller: Caller | None = None,
        abort: Abort | None = None,
        timeout: float | None = None,
        store: str | Store | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> AgentResult[Output]:
        """Go on with a parked or killed run, from this or any other process.

        `decisions` answer calls that asked for approval, `results` those that the host runs. A run
        that has ended stays as it ended.
        """
        if not isinstance(cast("object", session_id), str):
            raise ConfigError(f"session_id is a text, not {shown(session_id)}")
        check_run(caller=caller, abort=abort, timeout=timeout, store=store, on_event=on_event)
        check_answers(decisions, results)
        runtime, chosen = current_runtime(), self._options
        caller = caller or chosen.get("caller")
        deps = deps if deps is not None else chosen.get("deps")
        plan = self.plan
        if callable(self._system):
            plan = await self._framed(deps, caller, session_id)
        begun = await driver.resume(
            plan,
            session_id,
            runtime,
            store=_chosen(runtime, store, chosen),
            caller=caller,
            deps=deps,
            sinks=sinks_of(on_event or chosen.get("on_event")),
            decisions=decisions,
            results=results,
        )
        outcome = await conduct(begun, runtime, abort=abort or chosen.get("abort"), timeout=timeout)
        return AgentResult(begun.run, outcome)

    # ----------------------------------------------------------------- other agents from this one

    def with_(self, **options: Any) -> Agent[Deps, Output]:
        """The same agent with some options changed; this one stays as it is."""
        return self._changed(options, "Agent", frozenset())

    def _changed(
        self, options: dict[str, Any], door: str, also: frozenset[str]
    ) -> Agent[Deps, Output]:
        system = options.pop("system", self._system)
        if system is not None and not callable(system):
            system = words("system", system)
        model = options.pop("model", None)
        other = cast("Agent[Deps, Output]", object.__new__(Agent))
        other._options = {**self._options, **check_agent(options, door, also)}
        if model is not None:
            other._options["model"] = model
            other._options.pop("provider", None)
        other._system, other._plan = system, None
        return other

    override = with_

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool:
        """This agent as a tool for another: it takes a `task` and answers with its final text.

        Each call is a session of its own, named after the call: a parked or killed child goes on
        where its journal ends.
        """
        from windlass.agents.subagent import agent_tool

        return agent_tool(self, name, description)

    async def _framed(self, deps: Any, caller: Caller | None, session_id: str | None) -> Plan:
        """The plan with a system prompt that a function writes for this run."""
        write = cast("Callable[..., Any]", self._system)
        context: ToolContext[Any] = ToolContext(
            deps, caller or Caller.local(), session_id or "", "", "", "", cast("Any", None)
        )
        wants = len(inspect.signature(write).parameters) > 0
        written = write(context) if wants else write()
        if inspect.isawaitable(written):
            written = await written
        if not isinstance(written, str):
            raise ConfigError(f"system returned {shown(written)}; it must return a text")
        return assemble(self._options, written, "agent")

    def __repr__(self) -> str:
        model = self._options.get("model") or self._options.get("provider") or "default model"
        return f"<Agent {self.name or ''} {model}>".replace("  ", " ")


_OF_A_RUN = frozenset(inspect.signature(cast("Any", Agent).run).parameters) - {
    "self",
    "prompt",
    "overrides",
}


def _chosen(runtime: Runtime, store: str | Store | None, options: Mapping[str, Any]) -> Store:
    place = store if store is not None else options.get("store")
    return runtime.store if place is None else runtime.store_at(place)


def _result(begun: Start, outcome: Outcome) -> AgentResult[Any]:
    return AgentResult(begun.run, outcome)
