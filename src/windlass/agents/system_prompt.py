"""The system prompt of a run that a function writes, and its deps."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from types import UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

from windlass.access.caller import Caller
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import RunStarted
from windlass.events.policy import Reminder
from windlass.json_types import as_given
from windlass.loop.plan import Plan
from windlass.redaction.redactor import MARK
from windlass.store.base import Store
from windlass.tools.tool import AgentInfo, ToolContext

#: A function that writes the system prompt of a run: `fn()` or `fn(ctx)`, sync or async.
SystemPrompt: TypeAlias = Callable[..., str | Awaitable[str]]
#: The key of the written prompt in a run's record: a resumed run does not call the function.
WRITTEN: Final = "system"


async def find_or_write(
    write: SystemPrompt, context: ToolContext[Any], going_on: Store | None
) -> str:
    """Return the prompt that the session's last run has on record, else the one that is written."""
    if going_on is not None and context.session_id:
        text = await written_for(going_on, context.session_id)
        if text is not None:
            return text
    return await write_system_prompt(write, context)


async def write_system_prompt(write: SystemPrompt, context: ToolContext[Any]) -> str:
    """Call the function that writes the system prompt: `fn()` or `fn(ctx)`, sync or async."""
    text = write(context) if inspect.signature(write).parameters else write()
    if inspect.isawaitable(text):
        text = await text
    if not isinstance(as_given(text), str):
        raise ConfigError(f"system returned {safe_repr(text)}; it must return a text")
    return text


def context_of(
    plan: Plan, deps: Any, caller: Caller | None, session_id: str | None
) -> ToolContext[Any]:
    """Build the context of such a function; the run has not begun yet."""
    agent = AgentInfo(plan.name or "runner", plan.role or "assistant", plan.model.name)
    return ToolContext(
        deps, caller or Caller.local(), session_id or "", "", "", "", _NotBegun(agent)
    )


class _NotBegun:
    """The scope of a run that has not begun."""

    cancelled = False
    pool: Executor | None = None

    def __init__(self, agent: AgentInfo) -> None:
        self.agent = agent

    def progress(self, call_id: str, data: Any) -> None:
        """Ignore progress: nobody watches yet."""

    def remind(self, reminder: Reminder, source: str = "policy") -> None:
        """Refuse a reminder: the run has not begun."""
        raise RuntimeError("a reminder needs a run that has begun: give on_session_start")

    def again(self, call_id: str, tool: Any, attempt: int) -> bool:
        """Refuse a retry: there is no call."""
        return False

    def keep_error(self, call_id: str, error: BaseException) -> None:
        """Ignore an error: there is no call."""

    async def commit(self, call_id: str, body: Callable[[Any], Any]) -> Any:
        """Refuse a commit: there is no call."""
        raise RuntimeError("only a tool call can commit")


async def written_for(store: Store, session_id: str) -> str | None:
    """Return the recorded system prompt of the session's last run, or None."""
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
    """Refuse deps of another type than the agent needs, as far as that can be checked."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    try:
        if any(isinstance(deps, get_origin(one) or one) for one in kinds):
            return
    except TypeError:
        return  # a Protocol, a TypedDict: only a type checker can check it
    names = " or ".join(getattr(one, "__name__", str(one)) for one in kinds)
    raise ConfigError(
        f"this agent needs deps of type {names}, not {safe_repr(deps)}: run(…, deps=…)"
    )
