"""What stands around one run of an agent: the system prompt that a function writes, and its deps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from windlass.access.caller import Caller
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import RunStarted
from windlass.events.policy import Reminder
from windlass.loop.plan import Plan
from windlass.redaction.redactor import MARK
from windlass.store.base import Store
from windlass.tools.tool import AgentInfo, ToolContext

#: Where a run's record says what the function wrote: one that goes on does not ask it again.
WRITTEN: Final = "system"


async def write_system_prompt(write: Callable[..., Any], context: ToolContext[Any]) -> str:
    """The system prompt that the function writes: `fn()` or `fn(ctx)`, sync or async."""
    text = write(context) if inspect.signature(write).parameters else write()
    if inspect.isawaitable(text):
        text = await text
    if not isinstance(text, str):
        raise ConfigError(f"system returned {safe_repr(text)}; it must return a text")
    return text


def context_of(
    plan: Plan, deps: Any, caller: Caller | None, session_id: str | None
) -> ToolContext[Any]:
    """What such a function may know: the run has not begun yet."""
    agent = AgentInfo(plan.name or "runner", plan.role or "assistant", plan.model.name)
    return ToolContext(
        deps, caller or Caller.local(), session_id or "", "", "", "", _NotBegun(agent)
    )


class _NotBegun:
    """Stands for a run that has not begun."""

    cancelled = False
    pool: Executor | None = None

    def __init__(self, agent: AgentInfo) -> None:
        self.agent = agent

    def progress(self, call_id: str, data: Any) -> None:
        """Nobody watches yet."""

    def remind(self, reminder: Reminder, source: str = "policy") -> None:
        """There is nothing to be reminded of yet."""
        raise RuntimeError("a reminder needs a run that has begun: give on_session_start")

    def again(self, call_id: str, tool: Any, attempt: int) -> bool:
        """There is no call."""
        return False

    async def commit(self, call_id: str, body: Callable[[Any], Any]) -> Any:
        """There is no call to commit with."""
        raise RuntimeError("only a tool call can commit")


async def written_for(store: Store, session_id: str) -> str | None:
    """What the function wrote for the session's last run; None: that is not on record."""
    try:
        entries = await store.read(session_id)
    except NoSuchSession:
        return None
    for entry in reversed(entries):
        if type(entry) is RunStarted:
            text = (entry.metadata or {}).get(WRITTEN)
            return text if isinstance(text, str) and MARK not in text else None
    return None


def check_deps(kind: Any, deps: Any) -> None:
    """Refuse deps that are not what the agent says it needs, as far as that can be told."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    try:
        if any(isinstance(deps, get_origin(one) or one) for one in kinds):
            return
    except TypeError:
        return  # a Protocol, a TypedDict: only a type checker can tell
    names = " or ".join(getattr(one, "__name__", str(one)) for one in kinds)
    raise ConfigError(
        f"this agent needs deps of type {names}, not {safe_repr(deps)}: run(…, deps=…)"
    )
