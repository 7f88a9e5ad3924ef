"""A daemon: a turn without tool calls makes it idle, and it goes on when something happens.

Two policies. The first in the order waits before a turn begins and writes the snapshot after all
others have ended; the last one turns the end of a run into an idle turn, if all others agree to it.
What both know is in the journal, so a daemon that was killed is idle again, or goes on with its event.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

import msgspec

from windlass import seams
from windlass.conditions.resume import agent_await_resumption
from windlass.json_types import JsonObject, as_object
from windlass.loop.inbox import hear_item, take_item, take_mail, wait_for_mail
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Outcome, Stop, Suspend
from windlass.messages import Message, Text
from windlass.policies.build import BuildContext, Policies
from windlass.policies.compaction.policy import Compactor
from windlass.policies.daemon.options import DaemonOptions, check_daemon
from windlass.policies.daemon.queue import IDLE_TURN, DaemonState, QueuedEvent
from windlass.policies.daemon.snapshot import build_snapshot, write_snapshot
from windlass.policies.daemon.wake import choose_pause, find_changes, read_mtimes
from windlass.store.base import InboxItem
from windlass.store.daemon_events import CAPACITY, EVENT, IDLE, STARTED, STOP, WAKE

log = logging.getLogger("windlass.loop")

TIMER: Final = "You have been idle for {seconds} seconds. Look whether there is something to do."
FILES: Final = "These files have changed: {files}"
RESUMED: Final = "You were woken up. Look whether there is something to do."
REPEAT: Final = (
    "You have seen this event before, and the work on it was interrupted. Some of it may be done."
)


def build(ctx: BuildContext) -> Policies:
    """Build the policy that waits while the daemon is idle."""
    options = DaemonOptions.read(ctx.values)
    check_daemon(options)
    return (Daemon(options),) if options.daemon else ()


def build_idle(ctx: BuildContext) -> Policies:
    """Build the policy that makes the daemon idle."""
    return (DaemonIdle(),) if DaemonOptions.read(ctx.values).daemon else ()


class DaemonIdle(Policy[None]):
    """A policy that lets no turn without calls end the run: the daemon becomes idle."""

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> KeepGoing | None:
        """Refuse a natural end; a sentinel, or a tool that ends the run, ends a daemon too."""
        if turn.calls or finish.reason != "natural":
            return None
        return KeepGoing(IDLE_TURN)


class Daemon(Policy[None]):
    """A policy that waits while there is nothing to do, and delivers events one by one."""

    def __init__(self, options: DaemonOptions) -> None:
        self.options = options
        self.pause = _describe_pause(options)

    async def start(self, run: Run) -> None:
        """Put on record that the daemon runs, so that its queue takes events."""
        for item in [item for item in run.inbox if _is_stop(item)]:
            take_item(run, item)  # it was for a run before this one
        state = self._read(run)
        run.ledger.iterations = min(run.ledger.iterations, state.turns)
        if not state.is_started:
            state.capacity = self.options.event_queue_capacity or CAPACITY
            mtimes = read_mtimes(self.options.watch_paths)
            self._note(run, STARTED, {"mtimes": mtimes} if mtimes else {})
            await run.store_record()

    async def before_turn(self, run: Run) -> Stop | Suspend | None:
        """Wait while the daemon is idle; return why it ends, if nothing can wake it."""
        state = self._read(run)
        if not state.is_due:
            return None
        if state.heard:  # a message that came before it was idle
            if run.turn is not None:
                await self._wake(run, "message")
            elif state.is_interrupted:
                await self._deliver(run)
            return None
        if state.idle is None:
            await self._become_idle(run)
        return await self._wait(run)

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Write the last snapshot, and say in the result how the daemon ended."""
        path = await self._export(run, outcome.status)
        fields = {"daemon_state": outcome.status, "daemon_snapshot_path": path}
        return msgspec.structs.replace(outcome, fields={**outcome.fields, **fields})

    # ----------------------------------------------------------------- idle

    async def _become_idle(self, run: Run) -> None:
        """Put on record that the daemon is idle: its last event is done from here on."""
        options = self.options
        if options.consolidate_on_idle:
            await _compact(run)
        state = self._read(run)
        state.in_flight = None
        mtimes = await asyncio.to_thread(read_mtimes, options.watch_paths)
        self._note(run, IDLE, {**self.pause, "at": seams.now(), "mtimes": mtimes})
        await run.store_record()
        seams.point("daemon.idle")
        await self._export(run, "idle")

    async def _wait(self, run: Run) -> Stop | Suspend | None:
        """Wait for a reason to wake up, and let the model hear it."""
        options, waits, looks = self.options, 0, 0
        idle = self._read(run).idle or {}
        interval = options.wake_interval_ms
        due = None if interval is None else idle.get("at", seams.now()) + interval / 1000
        while True:
            if run.inbox or self._read(run).front:
                verdict, woke = await self._take(run)
                if woke or verdict is not None:
                    return verdict
            if options.watch_paths and await self._look_at_files(run, idle):
                return None
            if due is not None and seams.now() >= due:
                await self._wake(run, "timer", TIMER.format(seconds=f"{(interval or 0) / 1000:g}"))
                return None
            if not options.waits:
                return Stop("idle", "no_wake_source")
            most = options.idle_watchdog_attempts
            if most is not None and due is None and waits >= most:
                return Stop("watchdog", "idle_watchdog_attempts")
            if not await wait_for_mail(run, self._choose_pause(looks, due)):
                waits, looks = waits + 1, looks + 1

    def _choose_pause(self, looks: int, due: float | None) -> float | None:
        """Choose how long to wait: until the timer, or until the next look at the files."""
        options = self.options
        left = None if due is None else max(0.0, due - seams.now())
        if not options.watch_paths and options.idle_watchdog_attempts is None:
            return left
        pause = choose_pause(looks)
        return pause if left is None else min(pause, left)

    async def _look_at_files(self, run: Run, idle: JsonObject) -> bool:
        """Wake up if a watched file is not as it was when the daemon became idle."""
        mtimes = await asyncio.to_thread(read_mtimes, self.options.watch_paths)
        changed = find_changes(as_object(idle.get("mtimes")), mtimes)
        if changed:
            await self._wake(run, "file", FILES.format(files=", ".join(changed)), paths=changed)
        return bool(changed)

    # ----------------------------------------------------------------- what wakes it

    async def _take(self, run: Run) -> tuple[Stop | Suspend | None, bool]:
        """Take what was posted: the end of the run, or whether there is something to do now."""
        kinds = {item.kind for item in run.inbox}
        heard = len(run.messages)
        if (verdict := take_mail(run)) is not None:
            return verdict, False
        if len(run.messages) > heard:
            await self._wake(run, "message" if "steer" in kinds else "resume")
            return None, True
        if "resume" in kinds:
            await self._wake(run, "resume", RESUMED)
            return None, True
        for item in run.inbox:
            if item.kind == "follow_up":
                hear_item(run, item)
                await self._wake(run, "message")
                return None, True
        return None, await self._deliver(run)

    async def _deliver(self, run: Run) -> bool:
        """Deliver the next event, if one waits: those that were interrupted come first."""
        state = self._read(run)
        if state.front:
            await self._show_event(run, state.front[0])
            return True
        for item in run.inbox:
            if item.kind == EVENT:
                fields = item.fields
                take_item(run, item)
                queued = QueuedEvent(fields["number"], fields["event"])
                state.last = max(state.last, queued.number)
                await self._show_event(run, queued)
                return True
        return False

    async def _show_event(self, run: Run, queued: QueuedEvent) -> None:
        """Let the model hear an event; it is in flight until the daemon is idle again."""
        state = self._read(run)
        state.front = [one for one in state.front if one.number != queued.number]
        state.in_flight = queued
        kind = queued.event.get("kind")
        head = f"Event {queued.number}" + (f" ({kind})" if isinstance(kind, str) else "")
        shown = json.dumps(queued.event, ensure_ascii=False)
        words = f"{head}: {shown}" + (f"\n{REPEAT}" if queued.repeat else "")
        facts = {"number": queued.number, "event": queued.event, "repeat": queued.repeat}
        await self._wake(run, "event", words, **facts)

    async def _wake(self, run: Run, reason: str, words: str | None = None, **facts: object) -> None:
        """Put on record why the daemon wakes up, and what the model hears of it."""
        self._note(run, WAKE, {"reason": reason, **facts})
        run.ledger.iterations = 0  # a limit on turns is one for each time that it wakes up
        if words is not None:
            run.hear(Message("user", (Text(words),), WAKE))
        await run.store_record()
        seams.point("daemon.wake")

    # ----------------------------------------------------------------- the record

    def _read(self, run: Run) -> DaemonState:
        """Return the state of the daemon, up to the last entry."""
        state: DaemonState | None = run.cache.get(DaemonState)
        if state is None:
            state = run.cache[DaemonState] = DaemonState()
        state.read(run.entries)
        return state

    def _note(self, run: Run, name: str, data: JsonObject) -> None:
        queue = msgspec.to_builtins(self._read(run).to_note())
        run.note(name, {**data, "queue": queue})

    async def _export(self, run: Run, status: str) -> str | None:
        """Write the snapshot file, where one is wanted; the store is the truth if that fails."""
        path = self.options.persist_path
        if path is None:
            return None
        snapshot = build_snapshot(run, self._read(run), status)
        try:
            await asyncio.to_thread(write_snapshot, path, snapshot)
        except OSError as error:
            log.warning("session %s: no snapshot in %s: %s", run.session_id, path, error)
        return path


def _describe_pause(options: DaemonOptions) -> JsonObject:
    """Describe the pause of an idle daemon as `agent_await_resumption` does, with what ends it."""
    conditions: JsonObject = {"on_event": "agent/resume"}
    if options.wake_interval_ms is not None:
        conditions["timeout"] = options.wake_interval_ms / 1000
    if options.watch_paths:
        conditions["trigger"] = {"kind": "file", "paths": list(options.watch_paths)}
    return {**agent_await_resumption("daemon idle", conditions).to_dict(), "initiator": "self"}


def _is_stop(item: InboxItem) -> bool:
    return item.kind == "suspend" and item.fields.get("reason") == STOP


async def _compact(run: Run) -> None:
    """Compact the conversation as far as the compaction of the run can."""
    for policy in run.plan.policies:
        if isinstance(policy, Compactor):
            await policy.compact(run, "idle", 1)
