"""Undo of a session's effects, the newest first, each by its tool's own undo.

An undo is on the session's own record: who, which call, what came of it. It happens at most once. One
that commits is stored together with its record; a keyed one runs again under its key after a crash;
any other that was begun and not ended is of unknown outcome, and is not tried again.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, TypeVar

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.environment import Environment
from windlass.engine.ownership import SessionScope, caller_of_resumed, owner_of
from windlass.errors import (
    ConfigError,
    Conflict,
    NoSuchSession,
    PermissionDenied,
    StoreError,
    error_text,
    nearest,
    safe_repr,
)
from windlass.events import JournalEntry, RunStarted, SessionOpened, UndoBegun, UndoEnded
from windlass.events.policy import Reminder
from windlass.loop.resume import standing
from windlass.loop.resume_input import check_by, name_of_answerer
from windlass.messages import ToolResult
from windlass.sessions.effects import (
    Elsewhere,
    UndoStep,
    calls_of,
    effects_of,
    elsewhere,
)
from windlass.store.base import Journal, Store
from windlass.store.open import Address
from windlass.toolbox.edits.result import parse_result
from windlass.toolbox.names import UNDOABLE_NAMES
from windlass.toolbox.registry import build_builtin_tools, replace_names
from windlass.toolbox.session_workspace import find_workspace
from windlass.tools.function import as_tools
from windlass.tools.handlers import is_async, own
from windlass.tools.render import to_text
from windlass.tools.tool import AgentInfo, Tool, ToolContext

T = TypeVar("T")
PATIENCE = 120.0  # seconds for an undo whose tool has no time limit


async def undoable(
    session_id: str,
    call_ids: Sequence[str] | str | None = None,
    *,
    tools: Sequence[Any] | None = None,
    caller: Caller | None = None,
    deps: Any = None,
    store: Address | None = None,
) -> list[UndoStep]:
    """List the effects of a session, newest first, with what each undo does or why it cannot.

    Each is judged as if those before it in the list were undone. `call_ids` selects calls. `for
    step in await w.undoable("s1", tools=[pay]): print(step.tool, step.what or step.why)`
    """
    work = await _Undoing.of(session_id, tools, caller, deps, store, "nobody")
    chosen, first = work.select_calls(call_ids), list[Callable[[Any], None]]()
    steps = [step for step in work.steps() if chosen is None or step.call_id in chosen]
    return [await work.preview_step(step, first) for step in steps]


async def undo(
    session_id: str,
    call_ids: Sequence[str] | str | None = None,
    *,
    tools: Sequence[Any] | None = None,
    by: Caller | None = None,
    name: str | None = None,
    caller: Caller | None = None,
    deps: Any = None,
    store: Address | None = None,
    force: bool = False,
) -> list[UndoStep]:
    """Undo the effects of a session, or of some calls: `await w.undo("s1", tools=[pay])`.

    Returns an `UndoStep` for each. `by` is who asks: the caller who began the session, or one with
    the grant `agent_session.undo`; None: the host, who may give a `name` for the record. It runs in
    the name of the session's caller, or of `caller`, who needs the same permissions. `tools` are
    those of the session; resources of the Runtime and built-in tools that edit are known. If the session has not ended,
    `force=True` takes it over.
    """
    who = name_of_answerer(check_by(by), name, "operator")
    if not is_host(by):
        session_id = await SessionScope.current(store, by).find(session_id, "undo")
    work = await _Undoing.of(session_id, tools, caller, deps, store, who)
    chosen = work.select_calls(call_ids)
    state = standing(work.entries)
    if state.unfinished and state.suspended is None and not force:
        raise ConfigError(
            f"session {session_id!r} has not ended and may be at work: resume or cancel it first, "
            "or take it over with force=True (--force)"
        )
    return await work.run_steps(chosen)


class _Undoing:
    """The undo of one session's effects."""

    def __init__(
        self,
        environment: Environment,
        session_id: str,
        entries: Sequence[JournalEntry],
        tools: dict[str, Tool],
        caller: Caller,
        deps: Any,
        home: Store,
        parent: Elsewhere | None,
        by: str,
    ) -> None:
        self.environment = environment
        self.session_id, self.entries, self.tools = session_id, entries, tools
        self.caller, self.deps, self.home, self.by = caller, deps, home, by
        self.parent, self.run_id = parent, seams.new_id("undo")

    @classmethod
    async def of(
        cls,
        session_id: str,
        tools: Sequence[Any] | None,
        caller: Caller | None,
        deps: Any,
        store: Address | None,
        by: str,
    ) -> _Undoing:
        scope = SessionScope.current(store, caller)
        environment, home = scope.environment, scope.home
        asked, session_id = session_id, await scope.find(session_id, "undo")
        entries = await home.read(session_id)
        begun = next((e for e in reversed(entries) if type(e) is RunStarted), None)
        if begun is None:
            raise NoSuchSession(f"session {asked!r} has never run: there is nothing to undo")
        known = {tool.name: tool for tool in environment.resources.tools()}
        known |= _find_tools(tools, entries)
        who = caller or caller_of_resumed(begun, owner_of(entries), None)[0]
        parent = await _parent(home, entries)
        return cls(environment, session_id, entries, known, who, deps, home, parent, by)

    def steps(self) -> list[UndoStep]:
        """List all effects, the newest first."""
        return effects_of(self.session_id, self.entries, self.tools, self.parent)

    def select_calls(self, call_ids: Sequence[str] | str | None) -> frozenset[str] | None:
        """Return the calls that are meant; raise for an unknown one."""
        if call_ids is None:
            return None
        meant = [call_ids] if isinstance(call_ids, str) else call_ids
        known = [step.call_id for step in self.steps()]
        for wanted in meant:
            if wanted not in known:
                raise ConfigError(
                    f"session {self.session_id!r} has no effect of call {safe_repr(wanted)}"
                    f"{nearest(str(wanted), known)}"
                )
        return frozenset(meant)

    async def preview_step(self, step: UndoStep, first: list[Callable[[Any], None]]) -> UndoStep:
        """Describe what the undo of a step would do after earlier ones, and add it to them."""
        tool = self.tools.get(step.tool)
        if step.why is not None or tool is None or tool.undo is None:
            return step
        foreseen: Callable[..., Any] | None = getattr(tool.undo, "foreseen", None)
        if foreseen is None:
            return msgspec.structs.replace(step, what=_words(tool.undo))
        ctx = self._context(step, _Scope(self, None, step))
        try:
            what, body = await foreseen(ctx, tuple(first))
        except Exception as error:
            return msgspec.structs.replace(
                step, why=self.environment.redact(error_text(error)), outcome=_outcome(error)
            )
        first.append(body)
        return msgspec.structs.replace(step, what=self.environment.redact(str(what)))

    async def run_steps(self, chosen: frozenset[str] | None) -> list[UndoStep]:
        """Undo what can be undone, in order; a resumed model is told of it."""
        steps = [step for step in self.steps() if chosen is None or step.call_id in chosen]
        if all([step.why is not None for step in steps]):
            return steps  # and leave the session with its writer
        journal = await self.home.open(self.session_id, create=False)
        ended: list[UndoStep] = []
        try:
            self.entries = journal.entries  # as they are now that no other writer changes them
            for step in self.steps():
                if chosen is not None and step.call_id not in chosen:
                    continue
                ended.append(await self._undo_step(journal, step) if step.why is None else step)
        finally:
            await journal.close()
        if names := [step.tool for step in ended if step.outcome == "ok"]:
            text = f"{self.by} has undone what these calls did: {', '.join(names)}."
            reminder = Reminder(text, ttl=1)
            await self.home.post(
                self.session_id, "remind", self.environment.redact(msgspec.to_builtins(reminder))
            )
        return ended

    async def _undo_step(self, journal: Journal, step: UndoStep) -> UndoStep:
        tool = self.tools[step.tool]
        step = await self.preview_step(step, [])
        if step.why is not None:
            refused: Any = step.outcome or "error"
            journal.append(
                self.environment.redact(
                    UndoEnded(step.call_id, step.tool, self.by, refused, step.why)
                )
            )
            journal.flush()
            return step
        scope = _Scope(self, journal, step)
        if tool.effect != "transactional":
            journal.append(self.environment.redact(scope.begun))
            journal.flush()
            await journal.durable()
            seams.point("undo.after_intent")
        outcome, detail = await self._call_undo(tool, step, scope)
        seams.point("undo.after_call")
        if outcome is None:
            return msgspec.structs.replace(
                step, why=f"nobody knows how far its undo came: {detail}"
            )
        if scope.ended is None:
            scope.ended = self.environment.redact(
                UndoEnded(step.call_id, step.tool, self.by, outcome, detail)
            )
            journal.append(scope.ended)
            journal.flush()
            await journal.durable()
        ended = scope.ended
        return msgspec.structs.replace(
            step, outcome=ended.outcome, detail=ended.detail, undone_by=self.by
        )

    async def _call_undo(self, tool: Tool, step: UndoStep, scope: _Scope) -> tuple[Any, str | None]:
        """Run the undo function; errors are outcomes, and a late one leaves it open."""
        assert tool.undo is not None
        ctx = self._context(step, scope)
        seconds = tool.timeout if tool.timeout is not None else PATIENCE
        try:
            async with asyncio.timeout(seconds):
                value = await _call(tool.undo, own(step.arguments), _result(step), ctx)
            if tool.effect == "transactional" and scope.ended is None:
                return "error", "an undo of a transactional tool ends with ctx.commit(body)"
            return "ok", None if value is None else self.environment.redact(to_text(value))[:500]
        except StoreError:
            raise  # nothing more can be written: the recorded start shows it
        except TimeoutError:
            unknown = tool.effect == "plain" and scope.ended is None
            return None if unknown else "error", f"it took longer than {seconds:g} s"
        except Exception as error:
            return _outcome(error), self.environment.redact(error_text(error))

    def _context(self, step: UndoStep, scope: _Scope) -> ToolContext[Any]:
        return _Context(
            self.deps, self.caller, self.session_id, self.run_id, step.call_id, step.tool, scope
        )


class _Context(ToolContext[Any]):
    """The context of an undo, with its own idempotency key."""

    @property
    def idempotency_key(self) -> str:
        return f"{self.session_id}:{self.call_id}:undo"


class _Scope:
    """The scope of an undo, in place of a run."""

    cancelled = False
    pool: Executor | None = None

    def __init__(self, undoing: _Undoing, journal: Journal | None, step: UndoStep) -> None:
        self._undoing, self._journal, self._step = undoing, journal, step
        self.store = undoing.home
        self.agent = AgentInfo("undo", "operator")
        effect = undoing.tools[step.tool].effect
        self.begun = UndoBegun(step.call_id, step.tool, undoing.by, effect, step.what)
        self.ended: UndoEnded | None = None

    def progress(self, call_id: str, data: Any) -> None:
        """Ignore progress: nobody watches."""

    def remind(self, reminder: Reminder, source: str = "policy") -> None:
        """Ignore a reminder: no model runs."""

    def again(self, call_id: str, tool: Tool, attempt: int) -> bool:
        """Refuse a retry."""
        return False

    def keep_error(self, call_id: str, error: BaseException) -> None:
        """Ignore an error: the step has its own record."""

    async def commit(self, call_id: str, body: Callable[[Any], T]) -> T:
        """Run the body in one transaction with the record that the call is undone."""
        if self._journal is None:
            raise RuntimeError("it is only looked at: nothing may be committed")
        if self.ended is not None:
            raise RuntimeError("this undo has committed already; it commits once")
        undoing = self._undoing
        step, by, begun = (
            self._step,
            undoing.environment.redact(undoing.by),
            undoing.environment.redact(self.begun),
        )
        redactor = undoing.environment.redactor  # a store runs `record` in a thread of its own

        def clean(text: str) -> str:
            return text if redactor is None else redactor.text(text)

        def record(value: T) -> list[JournalEntry]:
            detail = None if value is None else clean(to_text(value))[:500]
            ended = UndoEnded(step.call_id, step.tool, by, "ok", detail)
            return [ended] if self.begun.effect != "transactional" else [begun, ended]

        seams.point("undo.before_commit")
        value = await self._journal.commit(body, record)
        seams.point("undo.after_commit")
        self.ended = record(value)[-1]  # pyright: ignore[reportAttributeAccessIssue]
        return value


def _outcome(error: Exception) -> Literal["conflict", "denied", "error"]:
    if isinstance(error, Conflict):
        return "conflict"
    return "denied" if isinstance(error, PermissionDenied) else "error"


def _find_tools(tools: Sequence[Any] | None, entries: Sequence[JournalEntry]) -> dict[str, Tool]:
    """Return the given tools by name, and the built-in ones that changed files of the workspace."""
    found = find_workspace(entries)
    place = {} if found is None else {"workspace": found.anchor, "mounts": found.mounts}
    named = replace_names(tools, place) if isinstance(tools, (list, tuple)) else tools
    known = {tool.name: tool for tool in as_tools(named)}
    if found is None or not all([os.path.isdir(one) for one in (found.anchor, *found.mounts)]):
        return known
    edits = {
        call.tool
        for call in calls_of(entries).values()
        if call.tool in UNDOABLE_NAMES and call.result is not None and _is_edit(call.result)
    }
    return {**build_builtin_tools(sorted(edits - known.keys()), place), **known}


def _is_edit(result: ToolResult) -> bool:
    """Check whether a result is the record of an edit: a tool of the program may have the name, too."""
    return parse_result(result.text) is not None


async def _parent(home: Store, entries: Sequence[JournalEntry]) -> Elsewhere | None:
    opened = entries[0] if entries else None
    if not isinstance(opened, SessionOpened) or opened.parent_id is None:
        return None
    try:
        return elsewhere(opened.parent_id, await home.read(opened.parent_id))
    except NoSuchSession:
        return None  # it cannot be undone there any more


async def _call(undo: Callable[..., Any], args: Any, result: ToolResult, ctx: Any) -> Any:
    if is_async(undo):
        return await undo(args, result, ctx)
    value = await asyncio.to_thread(undo, args, result, ctx)
    return await value if inspect.isawaitable(value) else value


def _words(undo: Callable[..., Any]) -> str:
    """Describe an undo by the first line of its docstring."""
    lines = (inspect.getdoc(undo) or "").strip().splitlines()
    if lines and inspect.isroutine(undo):
        return lines[0]
    return f"run {getattr(undo, '__name__', 'its undo')}"


def _result(step: UndoStep) -> ToolResult:
    assert step.result is not None
    return step.result
