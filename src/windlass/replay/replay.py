"""Replay of a journal: recorded replies and results, and every request compared.

Nothing is asked and nothing is done: the loop is the real one, what stands around its calls is the
record. Without the program that made the journal, what its policies did is taken from the record
too; with it (`agent`), they decide anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from windlass import seams
from windlass.engine import driver
from windlass.engine.driver import RunRequest, conduct
from windlass.engine.environment import Environment
from windlass.engine.resume import resume_run
from windlass.errors import ConfigError, TestBroken
from windlass.events import (
    INTERRUPTED,
    Decorated,
    Framed,
    InboxTaken,
    IterationEnd,
    IterationStart,
    JournalEntry,
    Reminded,
    Replied,
    ReplyFailed,
    RunEnded,
    RunStarted,
    Said,
    ToolMessage,
    ToolResulted,
    ToolShown,
)
from windlass.json_types import JsonObject
from windlass.loop.plan import Plan, create_plan, frame_of
from windlass.loop.policy import Policy
from windlass.loop.requests import requests_of
from windlass.loop.resume_input import Answers, decision_of, keep_answer
from windlass.loop.run import Run
from windlass.messages import Message, ToolResult
from windlass.models.base import Aside, Emit, Frame, Model, Request, Response
from windlass.models.meter import FAILED
from windlass.models.mock import MockError, error_from
from windlass.models.registry.capabilities import Capabilities
from windlass.policies.resumption import SPEC as AWAIT_RESUMPTION
from windlass.policies.resumption import AwaitResumption
from windlass.replay.diff import Difference, first_difference
from windlass.replay.record import AsRecorded, stand_in
from windlass.store.memory import MemoryStore
from windlass.tools.tool import Parked, Tool, ToolContext
from windlass.usage import Usage

# came with another reply
BESIDE = frozenset({"shadow", "escalated", "empty_completion", FAILED})


class RecordEnds(TestBroken):
    """The run goes on where the journal ends: it was killed, cancelled or is active."""


class Differs(TestBroken):
    """A request that is not the recorded one."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.where)
        self.difference = difference


class NeverAsked(Model):
    """The model of a replay, which needs no key and is never called."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.provider, self.name = model.provider, model.name
        self.native_tools, self.context_window = model.native_tools, model.context_window

    @property
    def capabilities(self) -> Capabilities:
        """The model's capabilities."""
        return self.model.capabilities

    def price(self, usage: Usage) -> float:
        """Price the usage as the model would."""
        return self.model.price(usage)


class RecordedRun(msgspec.Struct, frozen=True):
    """One run of a journal: entries `start` to `stop`."""

    number: int
    start: int
    stop: int
    begun: RunStarted
    prompts: tuple[Message, ...]
    frame: Frame
    ended: RunEnded | None


class ReplayReport(msgspec.Struct):
    """The result of replaying one run."""

    run: RecordedRun
    requests: int = 0  # that were as on record
    results: int = 0  # of tools, played back
    left_out: int = 0  # calls of policies that were not there to ask
    status: str | None = None
    cut: bool = False  # the record ends before the run does
    difference: Difference | None = None


def recorded_runs(entries: Sequence[JournalEntry]) -> list[RecordedRun]:
    """List the runs of a journal, in order."""
    starts = [n for n, entry in enumerate(entries) if type(entry) is RunStarted]
    frame = Frame()
    runs: list[RecordedRun] = []
    for number, start in enumerate(starts, 1):
        stop = starts[number] if number < len(starts) else len(entries)
        own_entries = entries[start:stop]
        until = next(
            (n for n, e in enumerate(own_entries) if type(e) is IterationStart), len(own_entries)
        )
        framed = next((e for e in own_entries if type(e) is Framed), None)
        frame = frame_of(framed) if framed is not None else frame
        prompts = tuple(
            e.message for e in own_entries[:until] if type(e) is Said and e.message.kind is None
        )
        ended = next((e for e in reversed(own_entries) if type(e) is RunEnded), None)
        begun = cast("RunStarted", entries[start])
        runs.append(RecordedRun(number, start, stop, begun, prompts, frame, ended))
    return runs


async def replay_run(
    session_id: str,
    entries: Sequence[JournalEntry],
    run: RecordedRun,
    environment: Environment,
    *,
    first: int = 0,
    plan: Plan | None = None,
    tools: Sequence[Tool] | None = None,
    system: str | None = None,
) -> ReplayReport:
    """Run it again, from entry `first` on, up to the first request that differs.

    `plan` is the program's own: its policies then decide anew. Without one, `tools` and `system`
    replace those on record.
    """
    cut = _beginning(entries, run, first)
    record = _Record(entries, run, cut)
    own = plan is not None
    if plan is not None and any([policy.name == "Daemon" for policy in plan.policies]):
        raise ConfigError("a daemon would wait for events: replay it without a program of its own")
    if plan is None:
        plan = _plan_of(record, tools, system)
    elif plan.relocate is not None:
        plan = plan.of(plan.model)
        plan.relocate = None  # no tool runs, so the workspace need not be there
    playback = Playback(record, in_order=own)
    store = await _copy_session(session_id, entries[1:cut])
    request = RunRequest(plan=plan, environment=environment, store=store, run_id=run.begun.run_id)
    if cut == run.start:
        own_entries = entries[run.start : run.stop] if own else ()
        begun = await driver.start(
            request, run.prompts, session_id, reminders=_inherited_reminders(own_entries)
        )
    else:
        begun = await resume_run(request, session_id)
    begun.run.around = playback
    playback.store, playback.session_id = (store, session_id) if own else (None, "")
    await playback.post()  # what was there before the first request
    begun.run.calls.answers = record.decisions
    begun.run.calls.host_results = {
        id: found.result for id, found in record.results.items() if _by_host(begun.run, found)
    }
    done = ReplayReport(run)
    try:
        outcome = await conduct(begun, environment)
        done.status = outcome.status
        playback.must_be_over(outcome.status)
    except RecordEnds:
        done.cut = True
    except Differs as found:
        done.difference = found.difference
    if playback.found is not None:  # a policy may have swallowed it
        done.difference = playback.found.difference
    done.requests, done.results, done.left_out = playback.same, playback.played, playback.left_out
    return done


async def _copy_session(session_id: str, entries: Sequence[JournalEntry]) -> MemoryStore:
    """Return a store in memory with a session that has these entries."""
    store = MemoryStore()
    journal = await store.open(session_id)
    for entry in entries:
        journal.append(entry)
    journal.flush()
    await journal.close()
    return store


def _inherited_reminders(entries: Sequence[JournalEntry]) -> list[Reminded]:
    return [one for one in entries if type(one) is Reminded and one.source == "inherited"]


def _beginning(entries: Sequence[JournalEntry], run: RecordedRun, first: int) -> int:
    """Return where to begin: at the run, or at the turn that holds the entry."""
    turns = [n for n in range(run.start, run.stop) if type(entries[n]) is IterationStart]
    within = [n for n in turns if n <= first]
    return within[-1] if len(within) > 1 else run.start


def _by_host(run: Run, found: ToolResulted) -> bool:
    tool = run.tools.get(found.tool)
    return tool is not None and tool.handler is None


# --------------------------------------------------------------------------- what is on record


class _Record:
    """A run's part of the journal, indexed."""

    def __init__(self, entries: Sequence[JournalEntry], run: RecordedRun, cut: int) -> None:
        self.run, self.cut = run, cut
        numbered = list(enumerate(entries[: run.stop]))
        replies = [n for n, e in numbered if type(e) is Replied]
        asked = dict(zip(replies, requests_of(entries[: run.stop]), strict=True))
        self.requests: dict[int, Request] = asked
        #: The requests of turns: those of judges and summaries have tools that no turn has.
        self.turn_requests = [
            asked[n] for n, e in numbered if type(e) is Replied and e.purpose is None
        ]
        own_entries = numbered[cut:]
        self.turns_before = sum(
            type(e) is Replied and e.purpose is None for _, e in numbered[run.start : cut]
        )
        self.calls: list[tuple[int, Replied | ReplyFailed]] = [
            (n, e)
            for n, e in own_entries
            if isinstance(e, (Replied, ReplyFailed)) and not _is_lost(e)
        ]
        self.results = {e.call_id: e for _, e in own_entries if type(e) is ToolResulted}
        self.shown: dict[str, ToolResult] = {}
        self.verdicts: dict[int, IterationEnd] = {}
        self.decisions: Answers = {}
        self.between: dict[int, list[JournalEntry]] = {}  # since the call before, by call
        self.turn_of: dict[int, int] = {}
        self._look(own_entries)

    def _look(self, mine: Sequence[tuple[int, JournalEntry]]) -> None:
        since: list[JournalEntry] = []
        turn = 0
        for number, entry in mine:
            match entry:
                case Replied() | ReplyFailed() if not _is_lost(entry):
                    self.between[number], since = since, []
                    self.turn_of[number] = turn
                case IterationStart():
                    turn = entry.number
                case IterationEnd():
                    self.verdicts[entry.number] = entry
                case ToolShown():
                    self.shown[entry.call_id] = entry.result
                case ToolMessage():
                    self.shown.update(entry.shown or {})
                case InboxTaken(item="decision", payload=dict()):
                    payload = cast("JsonObject", entry.payload)
                    for call_id, value in payload.items():
                        keep_answer(self.decisions, call_id, decision_of(value), None)
                case _:
                    pass
            since.append(entry)
        self.rest = since


def _is_lost(entry: Replied | ReplyFailed) -> bool:
    """Check whether the call ended with its process; it was then repeated."""
    return type(entry) is ReplyFailed and entry.category == INTERRUPTED


def _plan_of(record: _Record, tools: Sequence[Tool] | None, system: str | None) -> Plan:
    """Build the plan from the record alone."""
    run, frame = record.run, record.run.frame
    given = tools is not None or system is not None
    structural = [spec for spec in frame.tools if spec == AWAIT_RESUMPTION]
    known = list(tools) if tools is not None else []
    if tools is None:
        known += [stand_in(spec) for spec in frame.tools if spec not in structural]
    offered = frame.tools if tools is None else tuple([tool.spec for tool in tools])
    first = {*[tool.name for tool in known], *[spec.name for spec in frame.tools]}
    later = [spec for request in record.turn_requests for spec in request.tools]
    brought = {spec.name: spec for spec in later if spec.name not in first}  # by its policies
    policies: list[Policy[Any]] = [
        AsRecorded(record, frame if given else None, record.turns_before)
    ]
    if structural or run.begun.door == "agent_loop":
        policies.insert(0, AwaitResumption())
    known += [stand_in(spec) for spec in brought.values()]
    model = Model()
    model.provider, model.name = run.begun.provider, run.begun.model
    return create_plan(
        model,
        door=run.begun.door,
        name=run.begun.name,
        system=frame.system if system is None else system,
        tools=known,
        settings=frame.settings,
        policies=policies,
        eager=False,
        tool_timeout=None,
        validation="lenient",
        metadata=run.begun.metadata,
        offered=offered,
    )


# --------------------------------------------------------------------------- around the calls


_POSTED: Final = ("steer", "follow_up", "remind", "resume", "memory")


class Playback:
    """Recorded answers for models and tools, which compares the requests."""

    def __init__(self, record: _Record, *, in_order: bool) -> None:
        self.record, self.in_order = record, in_order
        self.at = 0
        self.same = self.played = self.left_out = 0
        self.found: Differs | None = None
        self.store: MemoryStore | None = None  # where mail is posted as it was
        self.session_id = ""

    async def respond(
        self, model: Model, request: Request, emit: Emit, purpose: str | None
    ) -> Response:
        """Return the recorded reply, if this is the recorded request."""
        if self.found is not None:
            raise self.found
        asides = list(self._skip_asides())
        if self.at >= len(self.record.calls):
            self._goes_on(purpose)
        number, entry = self.record.calls[self.at]
        if entry.purpose != purpose:
            self._fail(
                number,
                f"the loop asks for {_describe_purpose(purpose)} where the record asks for "
                f"{_describe_purpose(entry.purpose)}",
            )
        self.at += 1
        if isinstance(entry, ReplyFailed):
            raise error_from(MockError(entry.category, entry.message), entry.provider, entry.model)
        difference = first_difference(self.record.requests[number], request)
        if difference is not None:
            self._fail(number, difference.where, difference)
        self.same += 1
        await self.post()
        return _response(entry, asides)

    async def call(
        self, tool: Tool, arguments: JsonObject, context: ToolContext[Any]
    ) -> ToolResult | Parked:
        """Return the tool's recorded result; the tool does not run."""
        found = self.record.results.get(context.call_id)
        if found is None:
            raise RecordEnds(f"{tool.name} has no result on record")
        self.played += 1
        return found.result

    def now(self) -> float:
        """Return the time of the next recorded request."""
        number = next((n for n, e in self.record.calls[self.at :] if e.purpose is None), None)
        times = [
            time
            for entry in self.record.between.get(-1 if number is None else number, ())
            if type(entry) is Decorated
            for time in (*entry.times, *[one.time for one in entry.made])
        ]
        return max(times, default=seams.now())

    def must_be_over(self, status: str) -> None:
        """Fail unless the record ends with the run."""
        list(self._skip_asides())
        if self.found is None and self.at < len(self.record.calls):
            number, _ = self.record.calls[self.at]
            self._fail(number, f"the run ends here as {status!r}, and the record goes on")

    def _skip_asides(self) -> Iterator[Aside]:
        """Skip the recorded asides, and calls of policies that are not here."""
        while self.at < len(self.record.calls):
            _, entry = self.record.calls[self.at]
            beside = entry.purpose in BESIDE
            if not beside and (self.in_order or entry.purpose is None):
                return
            self.at += 1
            if beside and isinstance(entry, Replied):
                yield Aside(
                    entry.purpose or "", _response(entry, ()), entry.cost_usd, entry.duration_ms
                )
            elif not beside:
                self.left_out += 1

    def _goes_on(self, purpose: str | None) -> None:
        ended = self.record.run.ended
        if ended is None or ended.status in ("cancelled", "cancelling", "suspended", "failed"):
            raise RecordEnds("the record ends here")
        self._fail(
            self.record.run.stop - 1,
            f"the loop asks for {_describe_purpose(purpose)} once more; on record the run ends here as "
            f"{ended.status!r}",
        )

    def _fail(self, number: int, where: str, difference: Difference | None = None) -> None:
        turn = self.record.turn_of.get(number, 0)
        difference = difference or Difference(where)
        self.found = Differs(
            msgspec.structs.replace(difference, entry=number, turn=turn, request=self.same + 1)
        )
        raise self.found

    async def post(self) -> None:
        """Post again what others posted before the next request."""
        if self.store is None:
            return
        after = self.record.calls[self.at][0] if self.at < len(self.record.calls) else None
        since = self.record.rest if after is None else self.record.between[after]
        for entry in since:
            if type(entry) is InboxTaken and entry.item in _POSTED:
                await self.store.post(self.session_id, cast("Any", entry.item), entry.payload)
            elif type(entry) is Reminded and entry.source in ("suspend", "tool"):
                # a replay does not park, and runs no tool
                reminder = {"text": entry.text, "ttl": entry.ttl, "propagate": entry.propagate}
                await self.store.post(self.session_id, "remind", reminder)


def _response(entry: Replied, asides: Sequence[Aside]) -> Response:
    return Response(
        entry.message,
        entry.usage,
        cast("Any", entry.stop_reason),
        entry.model,
        entry.native_id,
        entry.provider,
        entry.via,
        tuple(asides),
        entry.attempts,
    )


def _describe_purpose(purpose: str | None) -> str:
    return "a turn" if purpose is None else repr(purpose)


def entry_number(entries: Sequence[JournalEntry], given: int) -> int:
    """Check an entry's number, and return it."""
    if not 0 <= given < len(entries):
        raise ConfigError(f"--from {given}: the session has entries 0 to {len(entries) - 1}")
    return given
