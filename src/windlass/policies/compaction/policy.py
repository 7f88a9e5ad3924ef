"""The policy that keeps the view within the model's window, in few and whole steps.

Idle it compares two numbers before each request. What it decides follows from the view alone, so a
run that goes on after a crash decides the same; a summary that was paid for is never written twice.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, cast

import msgspec

from windlass.detach import detach
from windlass.errors import BudgetExceeded, ConfigError, ContextOverflow, ModelError, safe_repr
from windlass.events import Compacted, IterationStart, Reshaped, TranscriptCompacted
from windlass.loop.policy import FEW_ENTRIES, Policy, TryAgain
from windlass.loop.run import Run
from windlass.messages import Message, Text
from windlass.models.base import Frame, Request, Settings
from windlass.models.estimates import (
    bound_messages,
    estimate_frame,
    estimate_messages,
    estimate_view,
)
from windlass.options.prompts import Words, text_of, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.compaction import rewrite
from windlass.policies.compaction.cut import (
    Cut,
    cut_of,
    fresh,
    messages_to_archive,
    shed,
    shed_until,
    truncate_messages,
)
from windlass.policies.compaction.options import CompactionOptions, Strategy
from windlass.policies.compaction.recall import recall_tool
from windlass.policies.compaction.rewrite import (
    PURPOSE,
    Compactions,
    Work,
    on_the_way,
    recalling,
    so_far,
)
from windlass.policies.compaction.summary_prompt import (
    RULES,
    TASK,
    WORDS,
    CompactionPolicy,
    asking,
    mode_of,
    on_record,
    render_summary,
    source_of,
    system_of,
)
from windlass.policies.context_strategy.options import StrategyOptions
from windlass.tools.tool import Tool

#: `(archived, reminders, policy)` -> the summary, or a dict with it.
Callback: TypeAlias = Callable[
    [list[Message], list[Message], CompactionPolicy], Any | Awaitable[Any]
]

log = logging.getLogger("windlass.loop")

BASE: Final = 48_000  # default threshold, in tokens of a view
_ENOUGH: Final = 0.5  # of the threshold: how small a view is to become
_CLOSE: Final = 0.75  # of the threshold: what is above would have to be cut again too soon
_GROWN: Final = 1.25  # times what the last compaction left, before the next one is worth its price
# the request is never repeated, so a cache entry would be paid for and not read
_SETTINGS = Settings(max_tokens=4_096, stream=False, cache=False)


_ENDLESS: Final = 1 << 62  # tokens


class _Bounds(NamedTuple):
    """Limits of a view in tokens, for one frame and what was known then."""

    frame: Frame
    memory: Compactions | None
    soft: int
    hard: int | None  # None: no known limit
    filled: int  # tokens of a turn, as its provider counts them, that fill the window


class Compactor(Policy[Compactions]):
    """A policy that keeps the view below a threshold; None: by window and price."""

    memory = Compactions
    keeps = "session"
    brief: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True

    def __init__(
        self,
        strategy: Strategy = "hybrid",
        *,
        threshold: int | None = None,
        keep_first: int = 0,
        keep_last: int | None = None,
        policy: CompactionPolicy | None = None,
        callback: Callback | None = None,
        task: Words = TASK,
        rules: Words = RULES,
    ) -> None:
        self.strategy: Strategy = strategy
        self.threshold, self.most = threshold, BASE if threshold is None else threshold
        self.keep_first = keep_first
        usual = 0 if strategy == "summarize_all" else 10
        self.keep_last = usual if keep_last is None else keep_last
        self.policy, self.callback = policy, callback
        self.task, self.rules = task, rules

    @property
    def name(self) -> str:
        return PURPOSE

    async def start(self, run: Run) -> Sequence[Tool] | None:
        """Offer the recall tool to a session that was compacted before."""
        if not has_compacted(run):
            return None
        name = recalling(run)
        return None if name is None else [recall_tool(run.entries, name)]

    async def before_model(self, run: Run, request: Request) -> Request:
        """Check the size of the view, and compact it where that is due."""
        if self.threshold is None and run.model.context_window is None:
            # A limit that was not set is checked every fourth round, by an upper bound first.
            size = len(request.messages)
            if PURPOSE not in run.memory and (
                size & 6
                or (size == 1 and self.keep_last)  # it stays as it is
                or bound_messages(run.messages.strand) < self.most
            ):
                return request
        messages = run.messages
        memory: Compactions | None = run.memory.get(PURPOSE)
        bounds: _Bounds | None = run.cache.get(_Bounds)
        if bounds is None or bounds.frame is not run.frame or bounds.memory is not memory:
            bounds = run.cache[_Bounds] = self._bounds(run, memory)
        turn, soft = run.turn, bounds.soft
        counted = 0 if turn is None else turn.usage.total_tokens
        if bound_messages(messages.strand) < soft and counted < bounds.filled:
            return request
        size = estimate_view(messages)
        if size < soft and counted < bounds.filled:
            return request
        hard = bounds.hard
        full = hard is not None and (size >= hard or is_window_full(run))
        if size < soft and not full:
            return request
        if memory is not None and size < memory.after * _GROWN:
            # a little every turn would break the cache every turn
            if not full or hard is None or memory.after >= hard or size < hard:
                return request
        before = run.frame
        if full:
            done = await self.compact(run, "window", min(soft, size), min(hard or size, size))
        elif self.threshold is not None or self._pays(run, request, size):
            done = await self.compact(run, "threshold", soft)
        else:
            return request
        if not done:
            return request
        frame = run.frame
        if request.frame is not before:  # another policy shaped it for this call: that stays
            # only what this call added: the rest may have been left out on purpose
            brought = [tool for tool in frame.tools if tool not in before.tools]
            tools = (*request.frame.tools, *brought)
            frame = msgspec.structs.replace(request.frame, tools=tools)
        return msgspec.structs.replace(request, messages=run.messages, frame=frame)

    async def on_model_error(self, run: Run, error: ModelError) -> TryAgain | None:
        """Compact the view once in a turn after the provider refused its size, and retry."""
        if not isinstance(error, ContextOverflow) or is_after_overflow(run):
            return None
        size = estimate_view(run.messages)
        memory: Compactions = run.recall(self)
        ceiling = min(size, memory.ceiling or size)
        limit, _ = self._limits(run, memory)
        ceiling = max(1, ceiling * 9 // 10)
        done = await self.compact(run, "overflow", min(limit, ceiling), ceiling, refused=True)
        return TryAgain() if done else None

    # ----------------------------------------------------------------- how much is too much

    def _bounds(self, run: Run, memory: Compactions | None) -> _Bounds:
        """Return the limits for the check before each request, valid for this frame and memory."""
        window = run.model.context_window
        if memory is None and window is None:
            return _Bounds(run.frame, memory, self.most, None, _ENDLESS)
        soft, hard = self._limits(run, memory)
        return _Bounds(run.frame, memory, soft, hard, filled_at(run) or _ENDLESS)

    def _limits(self, run: Run, memory: Compactions | None) -> tuple[int, int]:
        """Return the threshold, and the room in the window, in tokens of the view."""
        hard = _ENDLESS
        window = run.model.context_window
        if window is not None:
            room = min(run.plan.reply_tokens, window // 4)
            hard = max(window - room - estimate_frame(run.frame), window // 8)
        if memory is not None and memory.ceiling is not None:
            hard = min(hard, memory.ceiling)
        return min(self.most, hard), hard

    def _pays(self, run: Run, request: Request, size: int) -> bool:
        """Check whether a compaction pays for itself if the session doubles in length.

        Only asked where a provider's cache makes a long view cheap, and there is room for it.
        """
        turns, usage = so_far(run)
        if run.model.context_window is None or not usage.cache_read_tokens:
            return True
        cut = cut_of(request.messages, self.keep_first, self.keep_last)
        if cut is None:
            return True
        frame = estimate_frame(request.frame)
        gone, left, spent = (
            estimate_messages(messages_to_archive(request.messages, cut)),
            WORDS * 2,
            0.0,
        )
        slim = shed(request.messages, cut, None) if self.strategy == "hybrid" else None
        if slim is not None and estimate_messages(slim) * 2 < gone:
            left = estimate_messages(slim)  # references, and those are free
        elif self.strategy not in ("truncate", "custom"):
            spent = rewrite.summary_usd(run.model, gone, WORDS)
        same = frame + estimate_messages(request.messages[: cut.start])
        after = frame + size - gone + left
        effect = rewrite.effect_of(run.model, frame + size, after, same, cached=True)
        return effect.pays_after(spent) <= turns

    # ----------------------------------------------------------------- the work

    async def compact(
        self, run: Run, reason: str, limit: int, hard: int | None = None, *, refused: bool = False
    ) -> bool:
        """Make the view smaller than `limit` tokens; False if nothing can be removed.

        From `hard` tokens on the request could not be sent at all. `refused`: it was not, and that
        is to be remembered.
        """
        work = Work(run, limit, hard, refused=refused)
        recall = recalling(run)
        cut = self._cut(work)
        engine = None
        if self.strategy == "hybrid" and cut is not None:
            engine = self._shed_results(work, cut, recall)
        if engine is None and cut is not None and self._worth(work, cut):
            engine = await self._summarize_cut(run, work, cut)
        if work.too_long or (work.size > limit * _CLOSE and self.strategy == "hybrid"):
            engine = self._last_resort(work, recall, engine)
        if engine is None or not work.progress:
            return self._note_stopped(run, reason, limit)
        self._record_compaction(run, work, reason, engine, recall)
        return True

    def _cut(self, work: Work) -> Cut | None:
        """Choose the cut; keep less of the end if the request could not be sent otherwise."""
        cut = work.cut(self.keep_first, self.keep_last)
        last = self.keep_last
        while work.hard is not None and last and not self._fits(work, cut, work.hard):
            last //= 2
            cut = work.cut(self.keep_first, last)
        return cut

    def _fits(self, work: Work, cut: Cut | None, hard: int) -> bool:
        """Check whether the view can be sent after the cut, with references where needed."""
        rest = Cut(self.keep_first if cut is None else cut.stop, fresh(work.messages))
        slim = shed(work.messages, rest, None)
        size = work.size if slim is None else work.size_with(rest, slim)
        if cut is not None:
            size += min(WORDS * 2, hard // 4) - work.gone_tokens(cut)
        return size < hard

    def _shed_results(self, work: Work, cut: Cut, recall: str | None) -> str | None:
        """Replace bulky results alone, where that is enough, without a summary."""
        could = work.could_shed(cut)
        if not could or not self._slim_enough(work, cut, work.size - could):
            return None
        slim = shed(work.messages, cut, recall)
        if slim is None or not self._slim_enough(work, cut, size := work.size_with(cut, slim)):
            return None
        return work.put(cut, slim, "references", size)

    def _slim_enough(self, work: Work, cut: Cut, size: int) -> bool:
        """Check whether a view of this size, or what is left of the cut, is small enough."""
        left = work.span(*cut) // 4 - (work.size - size)
        return size <= work.limit * _ENOUGH or left <= work.limit // 10

    def _worth(self, work: Work, cut: Cut) -> bool:
        """Check whether the cut holds enough text to be worth a summary."""
        if self.strategy in ("custom", "truncate", "summarize_all") or work.before < WORDS * 4:
            return True
        return work.gone_tokens(cut) > min(work.limit, work.before) // 10

    async def _summarize_cut(self, run: Run, work: Work, cut: Cut) -> str | None:
        gone = work.messages_to_archive(cut)
        # where even the estimate is in doubt, the writer is given half of what should fit
        room = work.limit * (4 if work.hard is None else 2)
        text, engine, usd = await self._summary(run, gone, room)
        work.spent += usd
        new = work.with_summary(cut, render_summary(text, len(gone), self.policy))
        most = work.limit if self.strategy == "hybrid" else work.hard
        over = -1 if most is None else work.size_with(cut, new) - most
        if over >= 0:
            text = text[: max(200, len(text) - 4 * over - 8)]
            new = work.with_summary(cut, render_summary(text, len(gone), self.policy))
        work.archived = len(gone)
        return work.put(cut, new, engine)

    async def _summary(self, run: Run, gone: list[Message], room: int) -> tuple[str, str, float]:
        """Write the summary; return it with its author and cost."""
        match self.strategy:
            case "truncate":
                text, engine, usd = "", "truncate", 0.0
            case "custom":
                text, engine, usd = await self._call_back(run, gone), "custom", 0.0
            case _:
                text, usd = await self._ask_model(run, gone, room)
                engine = "llm"
        return (text, engine, usd) if text else (truncate_messages(gone), "truncate", usd)

    async def _call_back(self, run: Run, gone: list[Message]) -> str:
        assert self.callback is not None
        reminders = [one.message for one in run.view.reminders]
        answer = self.callback(detach(gone), reminders, self.policy or CompactionPolicy())
        if inspect.isawaitable(answer):
            answer = await answer
        return summary_in(answer)

    async def _ask_model(self, run: Run, gone: list[Message], room: int) -> tuple[str, float]:
        """Call the model, unless its answer to the same request is recorded."""
        known = on_the_way(run)
        if known is None:
            if run.model.context_window is not None:
                room = min(room, run.model.context_window * 2)
            room = max(4_000, room)
            question = Message("user", (Text(asking(gone, room)),))
            system = system_of(
                self.policy, WORDS, await text_of(self.task), await text_of(self.rules)
            )
            frame = Frame(system, (), _SETTINGS)
            try:
                await run.ask(Request((question,), frame), PURPOSE)
            except (ModelError, BudgetExceeded):
                return "", 0.0  # on record; the view still has to become smaller
            known = on_the_way(run)
        return ("", 0.0) if known is None else (known.message.text.strip(), known.cost_usd)

    def _last_resort(self, work: Work, recall: str | None, engine: str | None) -> str | None:
        """Replace results among the kept messages too, the oldest first.

        What the model has not seen yet goes only where the request could not be sent with it.
        """
        for stop in (fresh(work.messages), len(work.messages)):
            excess = work.size - int(work.limit * _ENOUGH)
            found = shed_until(work.messages, Cut(self.keep_first, stop), recall, excess)
            if found is not None:
                engine = work.put(*found, engine or "references")
            if not work.too_long:
                break
        return engine

    # ----------------------------------------------------------------- on the record

    def _record_compaction(
        self, run: Run, work: Work, reason: str, engine: str, recall: str | None
    ) -> None:
        memory: Compactions = run.recall(self)
        policy, frame = self.policy, estimate_frame(run.frame)
        start, stop, new = work.change()
        cached = so_far(run)[1].cache_read_tokens > 0
        as_it_was = recall is None or recall in run.tools
        same = frame + estimate_messages(work.messages[:start]) if as_it_was else 0
        effect = rewrite.effect_of(
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
        log.info(
            "session %s: compacted about %d to %d tokens (%s, %s)",
            run.session_id,
            work.before,
            work.size,
            reason,
            engine,
        )
        run.note(entry)
        run.emit(TranscriptCompacted(*(getattr(entry, name) for name in entry.__struct_fields__)))
        run.remember(
            self,
            Compactions(memory.times + 1, work.size, work.hard if work.refused else memory.ceiling),
        )
        if recall is not None and recall not in run.tools:
            tool = recall_tool(run.entries, recall)
            run.tools = {**run.tools, recall: tool}
            old = run.frame
            run.reframe(Frame(old.system, (*old.tools, tool.spec), old.settings), PURPOSE)

    def _note_stopped(self, run: Run, reason: str, limit: int) -> bool:
        """Record once that nothing can be removed."""
        memory: Compactions = run.recall(self)
        size = estimate_view(run.messages)
        if not memory.told:
            why = "what must stay in the view is more than the threshold"
            log.info(
                "session %s: about %d tokens cannot be compacted (%s): %s",
                run.session_id,
                size,
                reason,
                why,
            )
            run.note(
                "compaction_stopped",
                {"reason": reason, "why": why, "estimated_tokens": size, "threshold": limit},
            )
        if not memory.told or size >= memory.after * _GROWN:
            run.remember(self, msgspec.structs.replace(memory, told=True, after=size))
        return False


def summary_in(answer: object) -> str:
    """Parse the answer of `compact_callback`: a text, or a dict with a summary."""
    if isinstance(answer, Mapping):
        fields = cast("Mapping[object, object]", answer)
        if unknown := [key for key in fields if key != "summary"]:
            raise ConfigError(f"compact_callback answers no {safe_repr(unknown[0])}, but summary")
        answer = fields.get("summary")
    if answer is not None and not isinstance(answer, str):
        raise ConfigError(
            f"compact_callback answers a text or {{'summary': text}}, not {safe_repr(answer)}"
        )
    return (answer or "").strip()


# --------------------------------------------------------------------------- whether it is due


def has_compacted(run: Run) -> bool:
    """Check whether this session was compacted before."""
    memory: Compactions | None = run.memory.get(PURPOSE)
    if memory is not None and memory.times:
        return True
    entries = run.entries
    if len(entries) < FEW_ENTRIES:
        return False
    return any(type(e) is Reshaped and e.why == PURPOSE for e in entries)


def is_window_full(run: Run) -> bool:
    """Check whether the last request and reply filled the window, by the provider's count."""
    turn, most = run.turn, filled_at(run)
    if turn is None or most is None:
        return False
    return turn.usage.total_tokens >= most and not _since(run, Compacted)


def filled_at(run: Run) -> int | None:
    """Return how many tokens of a turn fill the window; None if unknown."""
    window = run.model.context_window
    return None if window is None else window - min(run.plan.reply_tokens, window // 4)


def is_after_overflow(run: Run) -> bool:
    """Check whether this turn's request was already compacted after an overflow."""
    entry = _since(run, Compacted)
    return isinstance(entry, Compacted) and entry.reason == "overflow"


def _since(run: Run, kind: type) -> Any:
    """Return the last entry of this kind since the turn began."""
    for entry in reversed(run.entries):
        if type(entry) is kind:
            return entry
        if type(entry) is IterationStart:
            return None
    return None


# --------------------------------------------------------------------------- from options

_DEFAULT = Compactor()  # frozen, and shared by all with default options
_OPTIONS: Final = frozenset(
    (*CompactionOptions.__struct_fields__, *StrategyOptions.__struct_fields__, "prompts")
)


def build(ctx: BuildContext) -> Policies:
    """Build the policy, unless it is off or a context strategy replaces it."""
    if _OPTIONS.isdisjoint(ctx.values):
        return (_DEFAULT,)
    if StrategyOptions.read(ctx.values).replaces_compaction:
        return ()
    compactor = build_compactor(ctx)
    if compactor is not None:
        return (compactor,)
    return (_DEFAULT,) if CompactionOptions.read(ctx.values).is_silent() else ()


def build_compactor(ctx: BuildContext) -> Compactor | None:
    """Build the policy that the options or prompts ask for, or None."""
    options = CompactionOptions.read(ctx.values)
    task = words_of(ctx.prompts, "agent.compaction_system", TASK)
    rules = words_of(ctx.prompts, "agent.compaction_instructions", RULES)
    if options.is_silent():
        ours = task is TASK and rules is RULES
        return None if ours else Compactor(task=task, rules=rules)
    strategy = options.strategy()
    if strategy == "none":
        options.check_off()
        return None
    callback = options.compact_callback
    if callback is not None and strategy not in (None, "custom"):
        raise ConfigError(
            f'compact_callback writes the summary with compact_strategy="custom", not {strategy!r}'
        )
    if callback is None and strategy == "custom":
        raise ConfigError('compact_strategy="custom" needs a compact_callback to write the summary')
    return Compactor(
        "custom" if callback is not None else cast("Strategy", strategy or "hybrid"),
        threshold=options.compact_threshold,
        keep_first=options.compact_keep_first or 0,
        keep_last=options.keep_last(),
        policy=options.policy(),
        callback=callback,
        task=task,
        rules=rules,
    )
