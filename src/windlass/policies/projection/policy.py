"""The view without what it does not need: changed rarely, in whole rounds, recorded.

What is proposed follows from the view and the journal alone, so a run that goes on after a crash
decides the same. A change is made where enough leaves the view for what must be sent anew behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec

from windlass.events import Projected
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message
from windlass.models.base import Frame, Request, View
from windlass.models.estimates import estimate_frame, estimate_view, weigh_messages
from windlass.policies.build import BuildContext, Policies
from windlass.policies.compaction import rewrite
from windlass.policies.compaction.cut import fresh
from windlass.policies.compaction.policy import has_compacted
from windlass.policies.compaction.recall import recall_tool
from windlass.policies.compaction.rewrite import recalling
from windlass.policies.projection.custom import CustomProjection
from windlass.policies.projection.edits import Edit, choose_edits
from windlass.policies.projection.failures import Failures, remove_repaired, squash_failures
from windlass.policies.projection.options import ProjectionOptions, TranscriptProjection
from windlass.policies.projection.prefix import summarize_prefix
from windlass.policies.projection.reachability import (
    Bodies,
    collect_unreachable,
    roots_of,
    shed_by,
)
from windlass.tools.tool import Tool

NAME: Final = "transcript_projection"
_NEW: Final = 3  # messages: an edit that became possible within so many is looked at now
_LATER: Final = 16  # and else whenever the view's length is a multiple of this


def build(ctx: BuildContext) -> Policies:
    """Build the policy that the option asks for."""
    projection = ProjectionOptions.read(ctx.values).transcript_projection
    if projection is None:
        return ()
    if projection.project is not None:
        return (CustomProjection(projection.project),)
    return (Projection(projection),)


class Projections(msgspec.Struct, frozen=True):
    """A session's memory of its projections."""

    times: int = 0
    version: int = 0  # of the scratchpad when results were last collected


class Projection(Policy[Projections]):
    """A policy that removes from the view what its settings name."""

    memory = Projections
    keeps = "session"
    brief: ClassVar[bool] = True

    def __init__(self, settings: TranscriptProjection) -> None:
        self.settings, self.policy = settings, settings.policy
        self.least, self.keep_last = settings.min_tokens or 0, settings.keep_last or 0

    @property
    def name(self) -> str:
        return NAME

    async def start(self, run: Run) -> Sequence[Tool] | None:
        """Offer the recall tool from the start: a later one would change every prefix."""
        name = recalling(run)
        if name is None or not run.tools:
            return None
        if has_compacted(run) and any(policy.name == "compaction" for policy in run.plan.policies):
            return None  # compaction brings it
        return [recall_tool(run.entries, name)]

    async def before_model(self, run: Run, request: Request) -> Request:
        messages = request.messages
        if type(messages) is not View or messages.strand is not run.messages.strand:
            return request  # another policy shows other messages for this call
        edits = self._propose_edits(run)
        if not edits:
            return request
        view = run.messages.strand.items
        begin = fresh(view)
        part = choose_edits(view, edits, begin, self.least)
        if not part:
            return request
        effect = self._effect(run, request, part, begin)
        if effect.saves_usd > 0 and effect.pays_after(0.0) > max(1, run.iteration):
            return request
        before = run.frame
        self._make(run, part, effect)
        frame = request.frame
        if run.frame is not before:
            frame = run.frame if frame is before else _with(frame, run.frame.tools[-1:])
        return Request(run.messages, frame, request.tail)

    # ----------------------------------------------------------------- what could go

    def _propose_edits(self, run: Run) -> Sequence[Edit]:
        match self.policy:
            case "clean_tool_repair" | "squash_failed_calls":
                return self._edits_of_failures(run)
            case "summary_prefix":
                if estimate_view(run.messages) < self.least:
                    return ()
                tool = recalling(run)
                return summarize_prefix(
                    run.messages.strand.items,
                    self.keep_last,
                    self.least,
                    self.settings.summary,
                    tool,
                )
            case _:
                return self._edits_of_unreachable(run)

    def _edits_of_failures(self, run: Run) -> Sequence[Edit]:
        failures: Failures = run.cache.setdefault(Failures, Failures()).upto_now(run)
        if not failures.chains and not failures.open and not failures.mixed:
            return ()
        view = run.messages.strand.items
        if self.policy == "clean_tool_repair":
            edits = remove_repaired(view, failures)
        else:
            stop = min(len(view) - self.keep_last, fresh(view))
            edits = squash_failures(view, failures, stop, self.keep_last, recalling(run))
        if edits and len(view) % _LATER and edits[-1].since + _NEW < len(view):
            return ()  # looked at before
        return edits

    def _edits_of_unreachable(self, run: Run) -> Sequence[Edit]:
        """Find unreachable results when the scratchpad has changed, or every few turns."""
        pad: Any = run.memory.get("scratchpad")
        version: int = 0 if pad is None else pad.version
        if version:
            memory: Projections = run.recall(self)
            if memory.version == version:
                return ()
            run.remember(self, msgspec.structs.replace(memory, version=version))
        elif not run.iteration or run.iteration % (self.settings.window_turns or 1):
            return ()
        view = run.messages.strand.items
        stop = min(len(view) - self.keep_last, fresh(view))
        least = self.settings.min_chars or 0
        bodies: Bodies = run.cache.setdefault((Bodies, least), Bodies(least))
        if not any(at < stop for at in bodies.upto_now(run).found[:1]):
            return ()
        kept = None if pad is None else pad.pad
        texts = self.settings.roots or ()
        roots = roots_of(view, stop, kept, run.entries, texts)
        return collect_unreachable(view, bodies, roots, stop, recalling(run))

    # ----------------------------------------------------------------- and goes

    def _effect(
        self, run: Run, request: Request, part: Sequence[Edit], begin: int
    ) -> rewrite.Effect:
        """Compute the cost effect; what the model has not seen yet is sent in any case."""
        usage = run.turn.usage if run.turn is not None else None
        view = run.messages.strand.items
        frame = estimate_frame(request.frame)
        size = weigh_messages(view[:begin])
        before = frame + size // 4
        after = frame + (size - sum([one.saved for one in part])) // 4
        same = frame + weigh_messages(view[: part[0].start]) // 4
        cached = usage is not None and usage.cache_read_tokens > 0
        return rewrite.effect_of(run.model, before, after, same, cached=cached)

    def _make(self, run: Run, part: Sequence[Edit], effect: rewrite.Effect) -> None:
        view: list[Message] = run.messages.strand.items
        before = estimate_view(run.messages)
        shed = shed_by(view, part)
        removed = sum([one.stop - one.start - len(one.messages) for one in part])
        for one in reversed(part):  # from the end, so that places stay places
            run.reshape((one.start, one.stop), one.messages, NAME)
        after = before - sum([one.saved for one in part]) // 4
        run.note(
            Projected(self.policy, before, after, removed, shed, effect.cache_usd, effect.saves_usd)
        )
        memory: Projections = run.recall(self)
        run.remember(self, msgspec.structs.replace(memory, times=memory.times + 1))
        name = recalling(run)
        if name is not None and name not in run.tools:
            tool = recall_tool(run.entries, name)
            run.tools = {**run.tools, name: tool}
            run.reframe(_with(run.frame, (tool.spec,)), NAME)


def _with(frame: Frame, tools: Sequence[Any]) -> Frame:
    new = [tool for tool in tools if tool not in frame.tools]
    return msgspec.structs.replace(frame, tools=(*frame.tools, *new))
