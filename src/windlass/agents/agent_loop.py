"""The loop as a function: every option of the specification in one call."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from windlass.engine import driver
from windlass.engine.assemble import assemble, parse_loop_options
from windlass.engine.continuation import parse_run_input
from windlass.engine.driver import RunRequest, Start, conduct
from windlass.engine.environment import current_environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.results import LoopResult
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError
from windlass.observe.callbacks import CallbackOptions, sinks_of
from windlass.options.parse import merge_options
from windlass.options.signature import show_options
from windlass.output.options import OutputOptions
from windlass.policies.daemon.options import DaemonOptions

if TYPE_CHECKING:
    from windlass.engine.keyword_lists import take_loop_options
    from windlass.engine.keywords import LoopKeywords


async def agent_loop(
    prompt: Any = None,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Unpack[LoopKeywords],
) -> LoopResult:
    """Run an agent loop and return a `LoopResult`; `status` says how it ended.

    ```python
    result = await w.agent_loop("Sort this list.", "Be brief.", tools=[sort], loop_until_done=True)
    print(result.status, result.visible_text, result.llm.iterations)
    ```
    Options may also be a dict, the third argument. Raises `ConfigError` for wrong options, and
    `SessionHeld` if another run has the session. Errors of models and tools do not raise.
    """
    if TYPE_CHECKING:
        take_loop_options(**more)
    typed = merge_options(options, more, "agent_loop")
    if system is not None:
        if "system" in typed:
            raise ConfigError("system is given twice: as the second argument and as an option")
        typed["system"] = system
    return await run_loop(prompt, typed, "agent_loop", LoopResult)


show_options(agent_loop, "take_loop_options")
Result = TypeVar("Result", bound=LoopResult)


class PreparedLoop(msgspec.Struct, frozen=True):
    """A loop whose options are checked: its request, and the options of its run."""

    request: RunRequest
    values: dict[str, Any]
    run: RunOptions

    async def drive(self, begun: Start, result: type[Result]) -> Result:
        """Drive a run that has begun to its end, and return its result."""
        begun.parks = self.run.on_cancel == "park"
        outcome = await conduct(begun, self.request.environment, abort=self.run.abort)
        return result(begun.run, outcome)


def prepare_loop(typed: dict[str, Any], door: str) -> PreparedLoop:
    """Check the options of a loop and build its plan, as the function of this name does."""
    system = typed.pop("system", None)
    values = parse_loop_options(typed, door)
    runtime = current_environment()
    plan = assemble(runtime.with_defaults(values), system, "agent_loop")
    run = RunOptions.read(values)
    request = RunRequest(
        plan=plan,
        environment=runtime,
        store=None if run.store is None else runtime.store_at(run.store),
        caller=run.caller,
        deps=run.deps,
        sinks=sinks_of(CallbackOptions.read(values).on_event),
        run_id=run.run_id,
        request_id=run.request_id,
        conversation_id=run.conversation_id,
        take_over=run.take_over,
    )
    return PreparedLoop(request, values, run)


async def run_loop(prompt: Any, typed: dict[str, Any], door: str, result: type[Result]) -> Result:
    """Run the loop with these options, as the function of this name does."""
    prepared = prepare_loop(typed, door)
    run, transcript = prepared.run, OutputOptions.read(prepared.values).transcript
    resume_path = DaemonOptions.read(prepared.values).resume_path
    if resume_path is not None:
        messages = () if prompt is None else parse_run_prompt(prompt, run.session_id)
        # Loaded by name: most loops are no daemons.
        module = import_module("windlass.agents.daemon_start")
        resumed: Start = await module.resume_from_file(
            prepared.request, resume_path, run.session_id, messages
        )
        return await prepared.drive(resumed, result)
    begun = await driver.start(
        prepared.request,
        parse_run_input(prompt, run.messages, transcript, run.session_id, door),
        run.session_id,
        on_pending=run.on_pending,
    )
    return await prepared.drive(begun, result)
