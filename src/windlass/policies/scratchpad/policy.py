"""The scratchpad of a session: begun with the task, recited, reorganised at intervals.

It is memory, never part of the view. Whatever goes wrong with it is on record, and the run goes on.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from windlass.errors import StoreError, TestBroken, error_text
from windlass.events import AgentScratchpad, Said
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Outcome
from windlass.messages import Message
from windlass.models.base import Model, Request
from windlass.options.prompts import Words, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.scratchpad.inbox import edit_entries, edits_in
from windlass.policies.scratchpad.options import Reorganizer, ScratchpadOptions
from windlass.policies.scratchpad.pad import (
    INITIAL,
    NAME,
    SCHEMA,
    BadPad,
    Item,
    Pad,
    Ref,
    Scratch,
    pad_entry,
    read_pad,
    within,
)
from windlass.policies.scratchpad.recent import Recents, refs_of
from windlass.policies.scratchpad.render import SYSTEM, excerpt, render_pad
from windlass.policies.scratchpad.reorganize import past_of, rewrite_pad

_TASK: Final = 4_000  # bytes of a task that is a goal; all of it stands in the view


def build(ctx: BuildContext) -> Policies:
    """Build the policy that keeps the scratchpad."""
    wanted = ScratchpadOptions.read(ctx.values).scratchpad
    if wanted is None or not wanted.enabled:
        return ()
    writer = wanted.reorganizer or Reorganizer()
    other = writer.provider is not None or writer.model is not None
    policy = Scratchpads(
        recite=wanted.recite,
        every=wanted.reorganize_every,
        recent=wanted.max_recent_messages,
        retries=wanted.schema_retries,
        initial=None if wanted.initial is None else read_pad(wanted.initial),
        model=ctx.resolve_model(writer.provider, writer.model) if other else None,
        system=words_of(ctx.prompts, "agent.scratchpad_system", SYSTEM),
    )
    return (policy,)


class Scratchpads(Policy[Scratch]):
    """A policy that keeps a pad for the session, reorganised every `every` turns, 0: never."""

    memory = Scratch
    keeps = "session"
    brief: ClassVar[bool] = True

    def __init__(
        self,
        *,
        recite: bool = True,
        every: int = 3,
        recent: int = 8,
        retries: int = 1,
        initial: Pad | None = None,
        model: Model | None = None,
        system: Words = SYSTEM,
    ) -> None:
        self.system = system
        self.recite, self.every, self.recent = recite, every, recent
        self.retries, self.initial, self.model = retries, initial, model
        self.models = () if model is None else (model,)

    @property
    def name(self) -> str:
        return NAME

    async def start(self, run: Run) -> None:
        """Apply posted edits, and create the pad of a new session."""
        self._take_edits(run)
        state: Scratch = run.recall(self)
        if state.pad is None and not _has_pad_entries(run):
            self._keep(run, _initial_pad(run, self.initial), "init")

    async def before_model(self, run: Run, request: Request) -> Request:
        """Reorganise the pad where that is due, and recite it at the end of the request."""
        if run.inbox:
            self._take_edits(run)
        if self.every and run.iteration and run.iteration % self.every == 0:
            await self._reorganize(run)
        if not self.recite:
            return request
        state: Scratch | None = run.memory.get(NAME)
        if state is None or state.pad is None:
            return request
        known: tuple[Pad, Message | None] | None = run.cache.get(_RECITED)
        if known is None or known[0] is not state.pad:
            known = run.cache[_RECITED] = (state.pad, render_pad(state.pad))
        recital = known[1]
        return (
            request
            if recital is None
            else Request(request.messages, request.frame, (*request.tail, recital))
        )

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Record the edits that were posted during the last turn."""
        if run.inbox:
            self._take_edits(run)
        return outcome

    # ----------------------------------------------------------------- changes

    def _keep(self, run: Run, pad: Pad, action: str) -> None:
        """Store the pad as its next version."""
        state: Scratch = run.recall(self)
        state = Scratch(pad, state.version + 1)
        run.remember(self, state)
        run.note(pad_entry(action, state))

    def _take_edits(self, run: Run) -> None:
        for item in edits_in(run.inbox):
            state: Scratch = run.recall(self)
            run.take(item)
            if run.redactor is not None:
                item = run.redactor.value(item)
            after, entries = edit_entries(item, state)
            for entry in entries:
                run.record(entry)
            if after is not state:
                run.memory = {**run.memory, NAME: after}

    async def _reorganize(self, run: Run) -> None:
        past = past_of(run.entries)
        if past.over:
            return
        state: Scratch = run.recall(self)
        recents: Recents = run.cache.setdefault(Recents, Recents(self.recent))
        recent = recents.up_to(run.entries)
        known = refs_of(state.pad, recent)
        if past.failed is not None:  # and the process ended before that was recorded
            run.note(pad_entry("failed", state, past.failed))
            return
        try:
            pad = await rewrite_pad(
                run, state.pad, recent, known, self.retries, self.model, self.system
            )
            if run.redactor is not None:  # a secret may be hidden in an escape until it is read
                pad = within(run.redactor.value(pad))
        except BadPad as error:
            run.note(pad_entry("rejected", state, f"{error.wrong}: {error_text(error, 400)}"))
        except (StoreError, TestBroken):
            raise
        except Exception as error:  # memory only helps: a run does not end for want of it
            run.note(pad_entry("failed", state, error_text(error, 400) or type(error).__name__))
        else:
            self._keep(run, pad, "reorganize")


_RECITED: Final = (NAME, "recited")


def _has_pad_entries(run: Run) -> bool:
    """Check whether this run has had a pad, or seen it cleared."""
    entries = run.entries
    return any(type(e) is AgentScratchpad for e in entries[run.first_entry :])


def _initial_pad(run: Run, initial: Pad | None) -> Pad:
    """Build the first pad of a session: as given, else with the task as the only goal."""
    task = _task(run)
    if initial is not None:
        pad = initial if run.redactor is None else run.redactor.value(initial)
        if task is None or all(ref.id != INITIAL or ref.excerpt for ref in pad.refs):
            return pad
        refs = [_task_ref(task) if ref.id == INITIAL else ref for ref in pad.refs]
        fuller = msgspec.structs.replace(pad, refs=tuple(refs))
        try:
            return within(fuller)
        except BadPad:
            return pad
    if task is None:
        return Pad()
    goal = Item(_cut(task), INITIAL)
    return Pad(SCHEMA, (goal,), (), (), (_task_ref(task),))


def _task_ref(task: str) -> Ref:
    return Ref(INITIAL, "user", None, excerpt(task) or None)


def _task(run: Run) -> str | None:
    """Return the user's first message in this run, else in the view."""
    for entry in run.own_entries:
        if type(entry) is Said and entry.message.role == "user" and entry.message.kind is None:
            if text := entry.message.text.strip():
                return text
    for message in run.messages:
        if message.role == "user" and message.kind is None and message.text.strip():
            return message.text.strip()
    return None


def _cut(task: str) -> str:
    """Cut a long task, so that there is room for the rest."""
    if len(task.encode(errors="replace")) <= _TASK:
        return task
    return task.encode(errors="replace")[:_TASK].decode(errors="ignore") + " […]"
