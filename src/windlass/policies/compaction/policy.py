"""The view is kept inside what the model can take: once and well, at whole rounds, on the record.

Idle it compares two numbers before each request. What it decides follows from the view alone, so a
run that goes on after a crash decides the same; a summary that was paid for is never written twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

import msgspec

from windlass.errors import BudgetExceeded, ConfigError, ContextOverflow, ModelError, shown
from windlass.events import Compacted, IterationStart, Replied, TranscriptCompacted
from windlass.loop.policy import Policy, TryAgain
from windlass.loop.run import Run
from windlass.messages import Message, Text
from windlass.models.base import Frame, Request, Settings
from windlass.policies.compaction import pricing
from windlass.policies.compaction.cutting import (
    Cut,
    archived,
    cut_of,
    fresh,
    rendered,
    replaced,
    shed,
    shed_until,
    tokens,
    truncated,
    weigh,
)
from windlass.policies.compaction.instructions import (
    CompactionPolicy,
    mode_of,
    on_record,
    source_of,
    system_of,
    written,
)
from windlass.policies.compaction.recall import NAMES, recall_tool
from windlass.tools.base import Tool

Strategy: TypeAlias = Literal["truncate", "summarize_middle", "summarize_all", "hybrid", "custom"]
STRATEGIES: Final = cast("tuple[str, ...]", get_args(Strategy))
#: `(archived, reminders, policy)` -> the summary, or a dict with it.
Callback: TypeAlias = Callable[
    [list[Message], list[Message], CompactionPolicy], Any | Awaitable[Any]
]

BASE: Final = 48_000  # tokens of a view, where nobody says another threshold
PURPOSE: Final = "compaction"
_ENOUGH: Final = 0.5  # of the threshold: how small a view is to become
_GROWN: Final = 1.25  # times what the last compaction left, before the next one is worth its price
_WORDS: Final = 600  # of a summary
_SETTINGS = Settings(max_tokens=4_096, stream=False)
_HEADER = "[Notes on the {count} earlier messages of this conversation, which are no longer shown]"


class Compactions(msgspec.Struct, frozen=True):
    """What a session remembers of its compactions."""

    times: int = 0
    after: int = 0  # tokens that the last one left
    ceiling: int | None = None  # tokens of a view that its provider refused as too long
    told: bool = False  # it was said why nothing can be done


class Compacting(Policy[Compactions]):
    """Keep the view below a threshold. `threshold=None`: what the model's window and price advise."""

    memory = Compactions
    keeps = "session"
    brief: ClassVar[bool] = True

    def __init__(
        self,
        strategy: Strategy = "hybrid",
        *,
        threshold: int | None = None,
        keep_first: int = 0,
        keep_last: int | None = None,
        policy: CompactionPolicy | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.strategy: Strategy = strategy
        self.threshold, self.most = threshold, BASE if threshold is None else threshold
        self.keep_first = keep_first
        usual = 0 if strategy == "summarize_all" else 10
        self.keep_last = usual if keep_last is None else keep_last
        self.policy, self.callback = policy, callback

    @property
    def name(self) -> str:
        return PURPOSE

    async def start(self, run: Run) -> Sequence[Tool] | None:
        """A session that was compacted before has its way back to what is no longer shown."""
        memory: Compactions | None = run.memory.get(PURPOSE)
        if memory is None or not memory.times:
            return None
        name = _recalling(run)
        return None if name is None else [recall_tool(run.journal.entries, name)]

    async def before_model(self, run: Run, request: Request) -> Request:
        """Look at the size; nothing else, most of the time."""
        memory: Compactions | None = run.memory.get(PURPOSE)
        known = memory is not None or run.model.context_window is not None
        if not known and self.threshold is None and len(run.strand.items) & 6:
            return request  # a limit that nobody set is looked at every fourth round
        size = view_tokens(run)
        limit, reason = self.most, "threshold"
        if known:
            limit, hard = self._limits(run, memory)
            if size >= hard or _filled(run):
                limit, reason = hard, "window"
        if size < limit and reason == "threshold":
            return request
        if memory is not None and size < memory.after * _GROWN:
            # a little every turn would break the cache every turn
            if reason == "threshold" or memory.after >= limit or size < limit:
                return request
        if self.threshold is None and reason == "threshold" and not self._pays(run, request, size):
            return request
        if not await self.compact(run, reason, limit):
            return request
        same = request.frame.tools == run.frame.tools
        frame = request.frame if same else run.frame
        return msgspec.structs.replace(request, messages=run.strand.snapshot(), frame=frame)

    async def on_model_error(self, run: Run, error: ModelError) -> TryAgain | None:
        """The provider says that it is too much: once in a turn, make it less and ask again."""
        if not isinstance(error, ContextOverflow) or _overflowed(run):
            return None
        size = view_tokens(run)
        memory: Compactions = run.recall(self)
        ceiling = min(size, memory.ceiling or size)
        limit, _ = self._limits(run, memory)
        if not await self.compact(run, "overflow", min(limit, ceiling)):
            return None
        memory = run.recall(self)
        run.remember(self, msgspec.structs.replace(memory, ceiling=ceiling * 9 // 10))
        return TryAgain()

    # ----------------------------------------------------------------- how much is too much

    def _limits(self, run: Run, memory: Compactions | None) -> tuple[int, int]:
        """The threshold, and what the window has room for, in tokens of the view."""
        hard = 1 << 62
        window = run.model.context_window
        if window is not None:
            room = min(run.plan.reply_tokens, window // 4)
            hard = max(window - room - _frame_tokens(run.frame), window // 8)
        if memory is not None and memory.ceiling is not None:
            hard = min(hard, memory.ceiling)
        return min(self.most, hard), hard

    def _pays(self, run: Run, request: Request, size: int) -> bool:
        """Will it have paid for itself, if the run goes on for as long as it has gone already?

        Only asked where a provider's cache makes a long view cheap, and there is room for it.
        """
        usage = run.turn.usage if run.turn is not None else None
        if run.model.context_window is None or usage is None or not usage.cache_read_tokens:
            return True
        cut = cut_of(request.messages, self.keep_first, self.keep_last)
        if cut is None:
            return True
        frame = _frame_tokens(request.frame)
        gone = tokens(archived(request.messages, cut))
        same = frame + tokens(request.messages[: cut.start])
        effect = pricing.effect_of(
            run.model, frame + size, frame + size - gone + _WORDS * 2, same, cached=True
        )
        spent = 0.0
        if self.strategy not in ("truncate", "custom"):
            spent = pricing.summary_usd(run.model, gone, _WORDS)
        return effect.pays_after(spent) <= run.iteration

    # ----------------------------------------------------------------- the work

    async def compact(self, run: Run, reason: str, limit: int) -> bool:
        """Make the view smaller than `limit` tokens; False: there is nothing to do it with."""
        work = _Work(run, limit)
        recall = _recalling(run)
        cut = cut_of(work.messages, self.keep_first, self.keep_last)
        engine = None
        if self.strategy == "hybrid" and cut is not None:
            slim = shed(work.messages, cut, recall)
            if slim is not None and work.size_with(cut, slim) <= limit * _ENOUGH:
                engine = work.put(cut, slim, "references")
        if engine is None and cut is not None and self._worth(work, cut):
            engine = await self._summarised(run, work, cut, reason)
        if work.size >= limit and (self.strategy == "hybrid" or reason != "threshold"):
            engine = self._last_resort(work, recall, engine, reason)
        if engine is None or not work.progress(reason):
            return self._stopped(run, reason, limit)
        self._recorded(run, work, reason, engine, recall)
        return True

    def _worth(self, work: _Work, cut: Cut) -> bool:
        """Is there enough prose to be worth a summary, or is all the weight in what stays?"""
        if self.strategy in ("custom", "truncate", "summarize_all") or work.before < _WORDS * 4:
            return True
        return tokens(archived(work.messages, cut)) > min(work.limit, work.before) // 10

    async def _summarised(self, run: Run, work: _Work, cut: Cut, reason: str) -> str | None:
        gone = archived(work.messages, cut)
        # where even the estimate is in doubt, the writer is given half of what should fit
        room = work.limit * (4 if reason == "threshold" else 2)
        text, engine, usd = await self._summary(run, gone, room)
        work.spent += usd
        new = replaced(work.messages, cut, self._worded(text, len(gone)))
        if work.size_with(cut, new) >= work.limit and self.strategy == "hybrid":
            new = replaced(work.messages, cut, self._worded(truncated(gone)[:2_000], len(gone)))
            if work.size_with(cut, new) < work.limit:
                engine = "truncate"
            else:
                new = replaced(work.messages, cut, self._worded(text, len(gone)))
        work.archived = len(gone)
        return work.put(cut, new, engine)

    async def _summary(self, run: Run, gone: list[Message], room: int) -> tuple[str, str, float]:
        """The summary, who wrote it, and what it cost."""
        match self.strategy:
            case "truncate":
                text, engine, usd = "", "truncate", 0.0
            case "custom":
                text, engine, usd = await self._called(run, gone), "custom", 0.0
            case _:
                text, usd = await self._asked(run, gone, room)
                engine = "llm"
        return (text, engine, usd) if text else (truncated(gone), "truncate", usd)

    async def _called(self, run: Run, gone: list[Message]) -> str:
        assert self.callback is not None
        reminders = [message for message, _ in run.reminders]
        answer = self.callback(gone, reminders, self.policy or CompactionPolicy())
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Mapping):
            said = cast("Mapping[str, Any]", answer)
            if unknown := [key for key in said if key != "summary"]:
                raise ConfigError(f"compact_callback answers no {shown(unknown[0])}, but summary")
            answer = said.get("summary")
        if answer is not None and not isinstance(answer, str):
            raise ConfigError(
                f"compact_callback answers a text or {{'summary': text}}, not {shown(answer)}"
            )
        return (answer or "").strip()

    async def _asked(self, run: Run, gone: list[Message], room: int) -> tuple[str, float]:
        """Ask the model, unless its answer to the same is on record already."""
        known = _on_the_way(run)
        if known is None:
            if run.model.context_window is not None:
                room = min(room, run.model.context_window * 2)
            room = max(4_000, room)
            text = f"<conversation>\n{rendered(gone, room)}\n</conversation>\n\nWrite the notes."
            frame = Frame(system_of(self.policy, _WORDS), (), _SETTINGS)
            try:
                await run.ask(Request((Message("user", (Text(text),)),), frame), PURPOSE)
            except (ModelError, BudgetExceeded):
                return "", 0.0  # on record; the view still has to become smaller
            known = _on_the_way(run)
        return ("", 0.0) if known is None else (known.message.text.strip(), known.cost_usd)

    def _worded(self, text: str, count: int) -> str:
        """The summary as the model reads it. What a host says to the writer alone stays out."""
        parts = [_HEADER.format(count=count), text]
        policy = self.policy
        if policy is not None and policy.visible and (asked := written(policy)):
            parts.append(f"[What these notes were asked to do]\n{asked}")
        return "\n\n".join(parts)

    def _last_resort(
        self, work: _Work, recall: str | None, engine: str | None, reason: str
    ) -> str | None:
        """Results among what stays go too, the oldest first.

        What the model has not seen yet goes only where the request could not be sent with it.
        """
        seen, every = fresh(work.messages), len(work.messages)
        for stop in (seen,) if reason == "threshold" else (seen, every):
            excess = work.size - int(work.limit * _ENOUGH)
            found = shed_until(work.messages, Cut(self.keep_first, stop), recall, excess)
            if found is not None:
                engine = work.put(*found, engine or "references")
            if work.size < work.limit:
                break
        return engine

    # ----------------------------------------------------------------- on the record

    def _recorded(
        self, run: Run, work: _Work, reason: str, engine: str, recall: str | None
    ) -> None:
        memory: Compactions = run.recall(self)
        policy, frame = self.policy, _frame_tokens(run.frame)
        start, stop, new = work.change()
        usage = run.turn.usage if run.turn is not None else None
        cached = usage is not None and usage.cache_read_tokens > 0
        as_it_was = recall is None or recall in run.tools
        same = frame + tokens(work.messages[:start]) if as_it_was else 0
        effect = pricing.effect_of(
            run.model, frame + work.before, frame + work.size, same, cached=cached
        )
        run.reshape((start, stop), new, PURPOSE)
        entry = Compacted(
            reason,
            self.strategy,
            engine,
            work.before,
            work.size,
            mode_of(policy),
            source_of(policy),
            on_record(policy),
            work.limit,
            work.archived,
            work.shed,
            work.spent,
            effect.cache_usd,
            effect.saves_usd,
            work.shortfall,
        )
        run.note(entry)
        run.emit(TranscriptCompacted(*(getattr(entry, name) for name in entry.__struct_fields__)))
        run.remember(
            self,
            msgspec.structs.replace(memory, times=memory.times + 1, after=work.size, told=False),
        )
        if recall is not None and recall not in run.tools:
            tool = recall_tool(run.journal.entries, recall)
            run.tools = {**run.tools, recall: tool}
            old = run.frame
            run.reframe(Frame(old.system, (*old.tools, tool.spec), old.settings), PURPOSE)

    def _stopped(self, run: Run, reason: str, limit: int) -> bool:
        """Say once that nothing can be done."""
        memory: Compactions = run.recall(self)
        size = view_tokens(run)
        if not memory.told:
            why = "what must stay in the view is more than the threshold"
            run.note(
                "compaction_stopped",
                {"reason": reason, "why": why, "estimated_tokens": size, "threshold": limit},
            )
        if not memory.told or size >= memory.after * _GROWN:
            run.remember(self, msgspec.structs.replace(memory, told=True, after=size))
        return False


class _Work:
    """A view being made smaller: nothing is changed until it is recorded."""

    def __init__(self, run: Run, limit: int) -> None:
        self.original = self.messages = list(run.strand.items)
        self.before = self.size = tokens(self.messages)
        self.limit = limit
        self.archived = self.shed = 0
        self.spent = 0.0

    def size_with(self, cut: Cut, new: Sequence[Message]) -> int:
        """The size of the view if these stood in place of the cut."""
        return self.size - tokens(self.messages[cut.start : cut.stop]) + tokens(new)

    def put(self, cut: Cut, new: Sequence[Message], engine: str) -> str:
        """Let them stand there."""
        size = self.size_with(cut, new)
        if len(new) == cut.stop - cut.start:
            self.shed += self.size - size
        self.size = size
        self.messages = [*self.messages[: cut.start], *new, *self.messages[cut.stop :]]
        return engine

    def change(self) -> tuple[int, int, list[Message]]:
        """The one span of the view that has changed, and what stands there now."""
        old, new = self.original, self.messages
        start, most = 0, min(len(old), len(new))
        while start < most and old[start] is new[start]:
            start += 1
        end = 0
        while end < most - start and old[-1 - end] is new[-1 - end]:
            end += 1
        return start, len(old) - end, new[start : len(new) - end]

    def progress(self, reason: str) -> bool:
        """Is there less to send than before? For a provider that refused it only tokens count."""
        fewer = len(self.messages) < len(self.original) and reason != "overflow"
        return self.size < self.before or fewer

    @property
    def shortfall(self) -> str | None:
        """Why it is still too large."""
        if self.size < self.limit:
            return None
        return f"what stays comes to about {self.size} tokens, and the threshold is {self.limit}"


def view_tokens(run: Run) -> int:
    """Roughly the tokens of the view; what was weighed once stays weighed."""
    strand = run.strand
    items = strand.items
    if strand.weighed != len(items):
        strand.weight += weigh(items[strand.weighed :])
        strand.weighed = len(items)
    return strand.weight // 4


def _frame_tokens(frame: Frame) -> int:
    chars = len(frame.system or "") + sum([len(t.description) + 200 for t in frame.tools])
    return chars // 4


def _filled(run: Run) -> bool:
    """Did the last request and its reply fill the window, by the provider's own count?"""
    turn, window = run.turn, run.model.context_window
    if turn is None or window is None:
        return False
    room = min(run.plan.reply_tokens, window // 4)
    return turn.usage.total_tokens >= window - room and not _since(run, Compacted)


def _overflowed(run: Run) -> bool:
    """Was this turn's request made smaller for that already?"""
    entry = _since(run, Compacted)
    return isinstance(entry, Compacted) and entry.reason == "overflow"


def _since(run: Run, kind: type) -> Any:
    """The last entry of this kind since the turn began."""
    for entry in reversed(run.journal.entries):
        if type(entry) is kind:
            return entry
        if type(entry) is IterationStart:
            return None
    return None


def _on_the_way(run: Run) -> Replied | None:
    """A summary of this turn that has not been put in its place."""
    for entry in reversed(run.journal.entries):
        if type(entry) is Replied and entry.purpose == PURPOSE:
            return entry
        if type(entry) in (IterationStart, Compacted):
            return None
    return None


def _recalling(run: Run) -> str | None:
    """The name under which the model can be given a way back; None: it can call no tools."""
    plan, frame = run.plan, run.frame
    if not run.tools and not run.model.native_tools:
        return None
    if frame.settings.tool_choice == "none":
        return None
    if frame.settings.schema is not None and not run.model.capabilities.schema_beside_tools:
        return None
    for name in NAMES:
        if name in plan.denied:
            return None
        if name not in plan.tools:
            return name
    return None
