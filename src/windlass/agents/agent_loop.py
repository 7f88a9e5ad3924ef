"""The loop as a function: every option of the specification in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from windlass.engine import driver
from windlass.engine.assemble import assemble, check_loop
from windlass.engine.driver import RunRequest, conduct
from windlass.engine.environment import current_environment
from windlass.engine.input import parse_run_prompt
from windlass.engine.options import LoopKeywords, merge_options
from windlass.engine.results import LoopResult
from windlass.errors import ConfigError
from windlass.observe.callbacks import sinks_of


async def agent_loop(
    prompt: Any,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Unpack[LoopKeywords],
) -> LoopResult:
    """Run an agent loop and return its result, whatever happens; `status` says how it ended.

    ```python
    result = await w.agent_loop("Sort this list.", "Be brief.", tools=[sort], loop_until_done=True)
    print(result.status, result.visible_text, result.llm.iterations)
    ```
    """
    typed = merge_options(options, more, "agent_loop")
    if system is not None:
        if "system" in typed:
            raise ConfigError("system is given twice: as the second argument and as an option")
        typed["system"] = system
    return await run_loop(prompt, typed, "agent_loop", LoopResult)


Result = TypeVar("Result", bound=LoopResult)


async def run_loop(prompt: Any, typed: dict[str, Any], door: str, result: type[Result]) -> Result:
    """Run the loop with these options, as the function of this name does."""
    system = typed.pop("system", None)
    checked = check_loop(typed, door)
    runtime = current_environment()
    plan = assemble(runtime.with_defaults(checked), system, "agent_loop")
    messages = checked.get("messages")
    session_id = checked.get("session_id")
    request = RunRequest(
        plan=plan,
        environment=runtime,
        store=runtime.store_at(place) if (place := checked.get("store")) is not None else None,
        caller=checked.get("caller"),
        deps=checked.get("deps"),
        sinks=sinks_of(checked.get("on_event")),
        run_id=checked.get("run_id"),
        request_id=checked.get("request_id"),
        conversation_id=checked.get("conversation_id"),
        take_over=checked.get("take_over", False),
    )
    begun = await driver.start(
        request,
        parse_run_prompt(prompt if messages is None else messages, session_id),
        session_id,
        on_pending=checked.get("on_pending", "keep"),
    )
    begun.parks = checked.get("on_cancel") == "park"
    outcome = await conduct(begun, runtime, abort=checked.get("abort"))
    return result(begun.run, outcome)
