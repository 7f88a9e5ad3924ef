"""Many tasks for one agent, side by side, under one budget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, cast

import msgspec

from windlass.agents.agent import Agent
from windlass.agents.run_arguments import RunArguments
from windlass.agents.subagent import name_child, run_child
from windlass.engine.driver import conduct
from windlass.engine.limit_options import LimitOptions, check_budget
from windlass.engine.ownership import find_session
from windlass.engine.results import AgentResult
from windlass.engine.run_options import RunOptions
from windlass.errors import BudgetExceeded, ConfigError, NoSuchSession, WindlassError, safe_repr
from windlass.events import JournalEntry, Said
from windlass.identifiers import check_identifier, child_session_id
from windlass.loop.ledger import NO_LIMITS, Ledger
from windlass.loop.run import Run
from windlass.loop.spend import read_children, spending_of
from windlass.loop.state import PendingCall
from windlass.store.base import Store
from windlass.tools.tool import Parked, ToolContext
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.engine.keywords import RunKeywords

Output = TypeVar("Output")
_OF_ALL_TOGETHER: Final = ("budget", "session_id")
_OF_THE_PARENT: Final = ("session_id", "store", "caller", "run_id", "take_over")
_NO_PARENT_WITH: Final = "parent is the ToolContext of the tool that hands out the tasks"


class FanOutFailure(msgspec.Struct, frozen=True):
    """A task that was not done: which, how its run ended, and why."""

    index: int
    task: str
    status: str
    message: str
    session_id: str | None = None


class FanOutResult(Generic[Output]):
    """The results of `fan_out`: `out.outputs`, `out.failures`, `out.results`."""

    def __init__(
        self, tasks: Sequence[str], ends: Sequence[AgentResult[Output] | WindlassError]
    ) -> None:
        self._tasks, self._ends = tasks, ends

    @cached_property
    def results(self) -> list[AgentResult[Output] | None]:
        """The result of each task, in the order given; None where no run could begin."""
        return [end if isinstance(end, AgentResult) else None for end in self._ends]

    @property
    def outputs(self) -> list[Output]:
        """The outputs of the tasks that were done, in the order given."""
        return [end.output for end in self.results if end is not None and end.status == "done"]

    @cached_property
    def failures(self) -> list[FanOutFailure]:
        """The tasks that were not done, in the order given."""
        return [
            _failure(at, task, end)
            for at, (task, end) in enumerate(zip(self._tasks, self._ends, strict=True))
            if not _is_done(end)
        ]

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that tasks wait for, in the order of the tasks; `w.approvals()` lists them too."""
        return [call for end in self.results if end is not None for call in end.pending]

    @property
    def parked(self) -> Parked | None:
        """What a keyed tool returns while tasks wait: `return out.parked or "all done"`."""
        waits = [end for end in self.failures if end.status == "suspended"]
        if not waits:
            return None
        sessions = [end.session_id for end in waits]
        return Parked(waits[0].message, {"sessions": sessions})

    @property
    def ok(self) -> bool:
        """Whether every task was done."""
        return not self.failures

    @cached_property
    def usage(self) -> Usage:
        """The tokens of all runs and of the agents that they handed work to."""
        return sum((end.usage for end in self._ends if isinstance(end, AgentResult)), NO_USAGE)

    @cached_property
    def cost_usd(self) -> float:
        """The dollars of all runs, as far as prices are known."""
        return sum(end.cost_usd for end in self._ends if isinstance(end, AgentResult))

    def raise_for_status(self) -> None:
        """Raise a `WindlassError` that names the first failure, if there is one."""
        if self.failures:
            first = self.failures[0]
            raise WindlassError(
                f"{len(self.failures)} of {len(self._ends)} tasks failed; the first is task "
                f"{first.index}: {first.status}: {first.message}"
            )

    def __repr__(self) -> str:
        done = len(self._ends) - len(self.failures)
        return f"<FanOutResult {done} of {len(self._ends)} tasks done>"


async def fan_out(
    agent: Agent[Any, Output],
    tasks: Sequence[str],
    *,
    limit: int = 8,
    parent: ToolContext[Any] | None = None,
    deps: Any = None,
    **options: Unpack[RunKeywords],
) -> FanOutResult[Output]:
    """Give an agent many tasks; at most `limit` run at once, and all share one `budget`.

    ```python
    out = await w.fan_out(reviewer, ["Review a.py", "Review b.py"], budget=w.Budget(usd=2))
    print(out.outputs, out.failures)
    ```
    A task that fails stops no other. With a `session_id` each task has a session of its own below that
    name: called again after a crash, `fan_out` goes on with those that had begun and repeats none. In a
    tool, `parent=ctx` places the runs under the tool's own run: its rules and its budget hold for them.
    A keyed tool that returns `out.parked` waits with its run while tasks wait for an approval.
    The other options are those of `Agent.run`, for every task.
    """
    checked = _check(tasks, limit, parent)
    every = cast("Mapping[str, Any]", options)
    if parent is not None:
        _check_below({"deps": deps, **every})
    limits = check_budget("budget", LimitOptions.read(every).budget) or NO_LIMITS
    session_id = RunOptions.read(every).session_id
    given = {name: value for name, value in every.items() if name not in _OF_ALL_TOGETHER}
    asked = agent.arguments_for(deps, given)  # a wrong option is an error before anything runs
    books = Ledger(limits, _find_ledger(asked, parent))
    if parent is not None:
        begin = await _under_parent(agent, checked, parent, books, given)
    else:
        begin = await _on_their_own(agent, checked, session_id, books, deps, given)
    ends: list[AgentResult[Output] | WindlassError] = [WindlassError("not begun")] * len(checked)
    waiting = list(reversed(list(enumerate(checked))))

    async def work() -> None:
        while waiting:
            at, task = waiting.pop()
            try:
                ends[at] = await begin(at, task)
            except WindlassError as error:
                ends[at] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, len(checked))):
            group.create_task(work())
    if all([isinstance(end, ConfigError) for end in ends]):
        raise cast("ConfigError", ends[0])
    return FanOutResult(checked, ends)


def _find_ledger(asked: RunArguments, parent: ToolContext[Any] | None) -> Ledger:
    """Return the ledger above all tasks: the tool's run, or what holds for the caller."""
    if parent is not None and isinstance(parent.scope, Run):
        return parent.scope.ledger
    caller = asked.caller if parent is None else parent.caller
    return asked.runtime.ledger_for(caller)


_Begin = Callable[[int, str], Awaitable[AgentResult[Any]]]


async def _under_parent(
    agent: Agent[Any, Any],
    tasks: Sequence[str],
    parent: ToolContext[Any],
    books: Ledger,
    options: Mapping[str, Any],
) -> _Begin:
    """Return what begins a task under the tool's run, or goes on with it."""
    if options:
        agent = agent.with_(**options)
    ids = [child_session_id(parent.session_id, name_child(parent)) for _ in tasks]
    if isinstance(parent.scope, Run):
        store = parent.scope.store
        begun = set((await store.info(parent.session_id)).child_ids)
        for child_id in ids:
            if child_id in begun:
                await _enter_spending(books, store, child_id, await store.read(child_id))

    def begin(at: int, task: str) -> Awaitable[AgentResult[Any]]:
        return run_child(agent, task, parent, ids[at], books)

    return begin


async def _enter_spending(
    books: Ledger, store: Store, session_id: str, entries: Sequence[JournalEntry]
) -> None:
    """Enter what a task that goes on and the agents under it have spent before."""
    spent = spending_of(entries)
    await read_children(store, session_id, spent)
    books.restore(0, spent.tree_usage.total_tokens, spent.tree_usd)


async def _on_their_own(
    agent: Agent[Any, Any],
    tasks: Sequence[str],
    session_id: str | None,
    books: Ledger,
    deps: Any,
    options: dict[str, Any],
) -> _Begin:
    """Return what begins a task as a session of its own, or goes on with it."""
    known: set[int] = set()
    if session_id is not None:
        check_identifier(session_id, "session_id")
        asked = agent.arguments_for(deps, options)
        for at, task in enumerate(tasks):
            key, entries = await _read(asked, f"{session_id}.{at}")
            if entries:
                _check_task(entries, task, f"{session_id}.{at}")
                await _enter_spending(books, asked.store, key, entries)
                known.add(at)

    async def begin(at: int, task: str) -> AgentResult[Any]:
        name = None if session_id is None else f"{session_id}.{at}"
        asked = agent.arguments_for(deps, {**options, "session_id": name})
        asked.above = books
        if name is not None and at in known:
            begun = await asked.resume(name)
        else:
            begun = await asked.begin(task)
        begun.agent = agent
        outcome = await conduct(begun, asked.runtime, abort=asked.abort, timeout=asked.timeout)
        return AgentResult(begun.run, outcome)

    return begin


async def _read(asked: RunArguments, session_id: str) -> tuple[str, Sequence[JournalEntry]]:
    """Read a session if it has begun; return the name that the store knows it by, too."""
    try:
        key = await find_session(asked.store, session_id, asked.caller, asked.runtime, "resume")
        return key, await asked.store.read(key)
    except NoSuchSession:
        return session_id, ()


def _check_task(entries: Sequence[JournalEntry], task: str, session_id: str) -> None:
    first = next((e.message.text for e in entries if type(e) is Said), None)
    if first is not None and first != task:
        raise ConfigError(
            f"session {session_id!r} was begun with another task, {safe_repr(first, 80)}; give the "
            "tasks of the first call in the same order, or another session_id"
        )


def _check(tasks: object, limit: object, parent: object) -> tuple[str, ...]:
    if isinstance(tasks, str) or not isinstance(tasks, (list, tuple)):
        raise ConfigError(f"fan_out takes a list of tasks, not {safe_repr(tasks)}")
    listed = cast("Sequence[object]", tasks)
    if not listed:
        raise ConfigError("fan_out takes at least one task")
    for task in listed:
        if not isinstance(task, str) or not task.strip():
            raise ConfigError(f"a task is a text that is not blank, not {safe_repr(task)}")
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"limit is a number of at least 1, not {safe_repr(limit)}")
    if parent is not None and not isinstance(parent, ToolContext):
        raise ConfigError(f"{_NO_PARENT_WITH}, not {safe_repr(parent)}")
    return tuple(cast("Sequence[str]", listed))


def _check_below(options: Mapping[str, Any]) -> None:
    """Refuse what the run of the tool decides for the tasks below it."""
    for name in ("deps", *_OF_THE_PARENT):
        if options.get(name) is not None:
            raise ConfigError(f"{name} is the parent's: leave it out, or leave out parent")


def _is_done(end: AgentResult[Any] | WindlassError) -> bool:
    return isinstance(end, AgentResult) and end.status == "done"


def _failure(at: int, task: str, end: AgentResult[Any] | WindlassError) -> FanOutFailure:
    if isinstance(end, AgentResult):
        words = (end.error or {}).get("message") or end.stop_reason or end.status
        return FanOutFailure(at, task, end.status, str(words), end.session_id)
    status = "budget_exhausted" if isinstance(end, BudgetExceeded) else "failed"
    return FanOutFailure(at, task, status, str(end))
