"""Work with workers by their handle or id, from any process that can open their store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, overload

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.conditions.resume import parse_resume_conditions
from windlass.engine.driver import Start, keeps_waiting
from windlass.engine.open_questions import Discarder
from windlass.engine.ownership import SessionAction, SessionScope, owner_of, readable_sessions
from windlass.errors import ConfigError, NoSuchSession, SessionHeld, safe_repr
from windlass.events import JournalEntry, RunEnded, WorkerStopped
from windlass.files import LARGEST_EXPORT, read_regular
from windlass.json_types import JsonObject, is_mapping, is_sequence
from windlass.loop.resume import standing
from windlass.options.checks import no_key
from windlass.sessions.snapshot import FORMAT as SNAPSHOT_FORMAT
from windlass.sessions.snapshot import restore_snapshot
from windlass.store.open import Address
from windlass.store.trigger_rows import is_watched
from windlass.workers.config import check_task
from windlass.workers.drive import (
    Live,
    TaskOutcome,
    WorkerScope,
    begin_run,
    leave_place,
    open_idle,
    settle,
)
from windlass.workers.live import LiveWorkers, live_workers, rebuild_live
from windlass.workers.next_task import assign_next_task, begin_next_task, restart_from_summary
from windlass.workers.record import (
    Worker,
    WorkerState,
    WorkerSummary,
    build_worker,
    read_record,
    read_worker,
    summarize_worker,
)
from windlass.workers.wish import is_served, is_woken_below, raise_worker_wish, write_end

_FIRST, _LONGEST = 0.005, 0.5  # seconds between two looks at a worker of another process
_PATIENCE: Final = 4  # looks at a run that has ended before its task is settled from the journal
_FLEET_LOOKS: Final = 9  # about a second: then a worker is driven by who waits for it
_SUSPEND_KEYS: Final = ("conditions", "initiator")
INITIATORS: Final = ("self", "parent", "operator", "triggered")


class Control(msgspec.Struct, frozen=True):
    """Access to one worker: where it is stored, who asks, and what this process has of it."""

    place: SessionScope
    worker_id: str

    @classmethod
    async def find(
        cls,
        worker: object,
        action: SessionAction,
        store: Address | None = None,
        caller: Caller | None = None,
    ) -> Control:
        """Find a worker by its handle, id, snapshot or file of a snapshot."""
        place = SessionScope.current(store, caller)
        if _is_path(worker):
            worker_id = await _find_in_file(str(worker), place, caller)
        else:
            worker_id = id_of(worker)
        try:
            key = await place.find(worker_id, action)
            await read_worker(place.home, key)
        except NoSuchSession:
            hint = "; save_snapshot writes a file that brings it along" if _is_path(worker) else ""
            raise NoSuchSession(f"no worker {worker_id!r}{hint}") from None
        return cls(place, key)

    @property
    def workers(self) -> LiveWorkers:
        """The workers of the current Runtime."""
        return live_workers(self.place.environment)

    async def read(self) -> WorkerState:
        """Read the worker as it stands now."""
        return await read_worker(self.place.home, self.worker_id)

    async def describe(self) -> Worker:
        """Return the handle of the worker as it stands now."""
        return await build_worker(self.place.home, await self.read())

    def restore(self, state: WorkerState, options: Mapping[str, Any] | None = None) -> Live:
        """Return what this process has of the worker, or what its record can be made into."""
        known = self.workers.get(self.place.home, self.worker_id)
        if known is not None and not options:
            return known
        if known is not None:
            known.options.update(options or {})
            return known
        live = rebuild_live(self.place.environment, state.record, options or {})
        self.workers.keep(self.place.home, self.worker_id, live)
        return live

    async def find_code(
        self, state: WorkerState, options: Mapping[str, Any] | None = None
    ) -> Live | None:
        """Return what this process has of the worker; None if only a fleet has what is missing."""
        try:
            return self.restore(state, options)
        except ConfigError:
            if state.record.stays or not await is_served(self.place.home, state.record.agent):
                raise
            return None

    def scope(self, live: Live | None = None) -> WorkerScope:
        """Return where the worker runs."""
        found = live or self.workers.get(self.place.home, self.worker_id) or Live({})
        return WorkerScope(self.place.environment, self.place.home, found)

    def launch(self, live: Live, begun: Start | None = None) -> None:
        """Drive the worker in this process, from a run that has begun or from its record."""
        self.workers.launch(self.place.home, self.worker_id, live, begun)

    async def wait(self, *, until_idle: bool = False) -> WorkerState:
        """Wait until the worker has ended or is parked, whichever process drives it.

        One that no process drives is taken up here, unless it is only waited for until nobody does.
        """
        pause, left, looks = _FIRST, 0, 0
        while True:
            task = self.workers.get_task(self.place.home, self.worker_id)
            if task is not None:
                await asyncio.wait({task})
            state = await self.read()
            if state.status != "running" and (state.settled or state.stopped):
                return state
            if _rests(state) and not await self._is_woken(state):
                return state
            live = self.workers.get(self.place.home, self.worker_id)
            if live is not None and live.failure is not None:
                raise live.failure
            if not state.info.alive:
                if until_idle:
                    return state
                if not state.is_left:
                    looks += 1
                    if await self._take_up(state, looks):
                        continue
                elif left == _PATIENCE:  # its process may have been about to do the same
                    await settle(self.scope(), state, TaskOutcome.of_journal(state))
                    continue
                else:
                    left += 1
            await seams.sleep(pause)
            pause = min(pause * 2, _LONGEST)

    async def _take_up(self, state: WorkerState, looks: int) -> bool:
        """Drive a worker that nobody drives; False while that is left to a fleet."""
        served = await is_served(self.place.home, state.record.agent)
        if served and looks < _FLEET_LOOKS:
            return False
        try:
            live = self.restore(state)
        except ConfigError:
            if served:
                return False
            raise
        # What a suspended worker waits for beside that which has come true is waited for further.
        kept = keeps_waiting.set(state.status == "suspended")
        try:
            self.launch(live)
        finally:
            keeps_waiting.reset(kept)
        return self.workers.get_task(self.place.home, self.worker_id) is not None

    async def _is_woken(self, state: WorkerState) -> bool:
        """Check whether a condition that the worker waits for has come true, or a fleet goes on."""
        if state.is_stopping:
            return False
        served = await is_served(self.place.home, state.record.agent)
        if served and state.is_handed_over:
            return True
        if served or state.suspension_conditions is not None:
            waiting = await self.place.home.inbox(state.key)
            if any([item.kind == "resume" for item in waiting]):
                return True
        return await is_woken_below(self.place.home, state.key)


def _rests(state: WorkerState) -> bool:
    return state.status == "suspended" and not state.info.alive


def id_of(worker: object) -> str:
    """Return the id of a worker that is given as a handle, an id or a snapshot."""
    if isinstance(worker, (Worker, WorkerSummary)):
        return worker.id
    if is_mapping(worker):
        worker = worker.get("id")
    if not isinstance(worker, str) or not worker:
        raise ConfigError(f"a worker is a handle or an id, not {safe_repr(worker)}")
    return worker


def _is_path(worker: object) -> bool:
    return isinstance(worker, os.PathLike) or (isinstance(worker, str) and worker.endswith(".json"))


async def _find_in_file(path: str, place: SessionScope, caller: Caller | None) -> str:
    """Return the id of a worker whose handle or session is in a file.

    The session is put into a store that does not have it, for the host: the file says whose it is.
    """
    try:
        data = await asyncio.to_thread(read_regular, path, LARGEST_EXPORT)
        found: object = msgspec.json.decode(data)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is no snapshot of a worker: {error}") from None
    if not is_mapping(found) or found.get("format") != SNAPSHOT_FORMAT:
        return id_of(found)
    if not is_host(caller):
        return id_of({"id": found.get("session_id")})
    key = await restore_snapshot(data, place.home, path)
    record = read_record(await place.home.info(key))
    return key if record is None else record.id


# --------------------------------------------------------------------------- wait and list


@overload
async def wait_agent(
    handle_or_list: Worker | str | Mapping[str, Any],
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Worker: ...
@overload
async def wait_agent(
    handle_or_list: Sequence[Worker | str],
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> list[Worker]: ...
async def wait_agent(
    handle_or_list: Any, *, store: Address | None = None, caller: Caller | None = None
) -> Worker | list[Worker]:
    """Wait until a worker, or each of a list, has ended or is suspended; return it as it is then.

    ```python
    one, two = await w.wait_agent([first, second])
    ```
    It may run in another process. A worker whose process was killed goes on here.
    """
    if is_sequence(handle_or_list):
        found = [await Control.find(one, "resume", store, caller) for one in handle_or_list]
        for one in found:
            await one.wait()
        return [await one.describe() for one in found]
    control = await Control.find(handle_or_list, "resume", store, caller)
    await control.wait()
    return await control.describe()


async def list_agents(
    *,
    parent: str | None = None,
    store: Address | None = None,
    caller: Caller | None = None,
) -> list[WorkerSummary]:
    """List the workers in the store, latest first; `parent` is the session that spawned them.

    With `caller`, those that they may read.
    """
    place = SessionScope.current(store, caller)
    found: list[WorkerSummary] = []
    for info in await readable_sessions(place.home, caller, place.environment):
        record = read_record(info)
        if record is None or record.id != info.id or parent not in (None, record.parent):
            continue
        found.append(summarize_worker(await read_worker(place.home, info.id)))
    return found


# --------------------------------------------------------------------------- further tasks


async def send_input(
    handle: Worker | str,
    task: str,
    *,
    options: Mapping[str, Any] | None = None,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Worker:
    """Give a worker that has ended its task another one; return the same handle, running.

    ```python
    worker = await w.send_input(worker, "Now do the same for the tests.")
    ```
    `carry` of the worker says what it takes along. `ConfigError` while it is running or suspended. `options` is
    as for `resume_agent`.
    """
    task = check_task(task)
    control = await Control.find(handle, "run", store, caller)
    state = await control.read()
    _check_open(state)
    if state.is_left:
        state = await control.wait()
    if state.status == "running":
        raise ConfigError(
            f"worker {control.worker_id!r} is still running: wait_agent waits for the end of its task"
        )
    if state.status == "suspended":
        raise ConfigError(
            f"worker {control.worker_id!r} is suspended: resume_agent goes on with its task"
        )
    live = await control.find_code(state, options)
    if live is None:
        await assign_next_task(control.scope(), state, task)
    else:
        control.launch(live, await begin_next_task(control.scope(live), state, task))
    return await control.describe()


async def suspend_agent(
    worker: Worker | str,
    reason: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Worker:
    """Suspend a worker before its next turn, never within a batch of calls, and return it.

    ```python
    worker = await w.suspend_agent(worker, "the freeze begins")
    print(worker.suspension.reason)
    ```
    `options` are `conditions` and `initiator` (`parent`). A worker that ends first has its own status.
    """
    payload = _check_suspension(reason, options)
    control = await Control.find(worker, "mail", store, caller)
    await request_suspension(control, payload)
    return await control.describe()


async def request_suspension(control: Control, payload: JsonObject) -> WorkerState:
    """Ask a worker to park, and wait until it has, or has ended."""
    state = await control.read()
    _check_open(state)
    if state.status != "running":
        return state
    if payload.get("conditions") is None and state.record.resume_when is not None:
        payload = {**payload, "conditions": state.record.resume_when}
    home, environment = control.place.home, control.place.environment
    if state.record.mode == "graph":
        return await _suspend_steps(control, environment.redact(payload))
    await home.post(state.key, "suspend", environment.redact(payload))
    return await control.wait()


async def _suspend_steps(control: Control, payload: JsonObject) -> WorkerState:
    """Ask each step of a workflow to park before its next turn, until the workflow waits for them."""
    home, asked, pause = control.place.home, set[str](), _FIRST
    while True:
        state = await control.read()
        if state.status != "running" or not (state.info.alive or state.info.status is None):
            return await control.wait()
        for info in await home.sessions():
            if info.parent_id == state.key and info.alive and info.id not in asked:
                asked.add(info.id)
                await home.post(info.id, "suspend", payload)
        await seams.sleep(pause)
        pause = min(pause * 2, _LONGEST)


def _check_suspension(reason: object, options: object) -> JsonObject:
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise ConfigError(f"a reason is a text that is not blank, not {safe_repr(reason)}")
    payload: JsonObject = {"reason": reason or "suspended", "initiator": "parent"}
    if options is None:
        return payload
    if not is_mapping(options):
        raise ConfigError(f"the options of suspend_agent are a dict, not {safe_repr(options)}")
    for key, value in options.items():
        if key not in _SUSPEND_KEYS:
            raise no_key("suspend_agent", key, _SUSPEND_KEYS)
        if key == "initiator" and value not in INITIATORS:
            raise ConfigError(
                f"initiator is one of {', '.join(INITIATORS)}, not {safe_repr(value)}"
            )
        payload[key] = value
    conditions = parse_resume_conditions(options.get("conditions"))
    payload["conditions"] = None if conditions is None else conditions.to_dict()
    return payload


async def resume_agent(
    worker_or_snapshot: Worker | str | Mapping[str, Any] | os.PathLike[str],
    resume_input: str | None = None,
    continue_transcript: bool = True,
    *,
    options: Mapping[str, Any] | None = None,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Worker:
    """Go on with a worker that is suspended, or whose process was killed; return it, running.

    ```python
    worker = await w.resume_agent("worker_5f2c", "The freeze is over.")
    ```
    `continue_transcript=False` begins with a summary of what was done and the new input only. In another
    process, `options` gives what no record can hold: tools, a model object, callbacks.
    """
    text = None if resume_input is None else check_task(resume_input)
    if type(continue_transcript) is not bool:
        raise ConfigError(
            f"continue_transcript is True or False, not {safe_repr(continue_transcript)}"
        )
    control = await Control.find(worker_or_snapshot, "resume", store, caller)
    state = await control.read()
    _check_open(state)
    if state.settled is not None:
        raise ConfigError(
            f"worker {control.worker_id!r} has ended its task ({state.status}): send_input gives "
            "it another one"
        )
    live = await control.find_code(state, options)
    driven = control.workers.get_task(control.place.home, control.worker_id) is not None
    if driven or (state.status == "running" and state.info.alive):
        return await control.describe()  # somebody drives it, or is about to put its end on record
    if state.is_left:
        await control.wait()
        return await control.describe()
    if live is None:
        if not continue_transcript:
            raise ConfigError(
                f"worker {control.worker_id!r} begins with a summary only where its code is: this "
                "process has none of it; leave out continue_transcript"
            )
        words = None if text is None else control.place.environment.redact(text)
        await control.place.home.post(state.key, "resume", words)
        return await control.describe()
    try:
        if not continue_transcript:
            begun = await restart_from_summary(control.scope(live), state, text)
        else:
            if text is not None and not await _is_posted(control, state, text):
                words = control.place.environment.redact(text)
                await control.place.home.post(state.key, "resume", words)
            begun = await _begin_again(control, live, state)
        control.launch(live, begun)
    except SessionHeld:
        pass  # another process was faster
    return await control.describe()


async def _begin_again(control: Control, live: Live, state: WorkerState) -> Start:
    """Go on with a worker; should this process be killed, a fleet does so in its place."""
    record, key = state.record, state.key
    if record.agent is not None:
        await control.place.home.commit(lambda tx: raise_worker_wish(tx, record, key))
    return await begin_run(control.scope(live), state)


async def _is_posted(control: Control, state: WorkerState, text: str) -> bool:
    """Check whether a resume that was cut off has posted the same words."""
    waiting = await control.place.home.inbox(state.key)
    return any([item.kind == "resume" and item.payload == text for item in waiting])


# --------------------------------------------------------------------------- its end


async def close_agent(
    handle: Worker | str, *, store: Address | None = None, caller: Caller | None = None
) -> Worker:
    """Cancel a worker and the workers that it spawned; it takes no further task.

    One that had ended keeps its status. Closing it again changes nothing.
    """
    control = await Control.find(handle, "mail", store, caller)
    await cancel_tree(control, "closed")
    return await control.describe()


async def cancel_tree(control: Control, reason: str) -> None:
    """Cancel a worker, and first those that it spawned, on the record."""
    for child in await find_children(control):
        await cancel_tree(child, reason)
    state = await control.read()
    if state.stopped is not None:
        return
    home, environment = control.place.home, control.place.environment
    if state.info.alive or control.workers.get_task(home, control.worker_id) is not None:
        await home.post(state.key, "cancel", environment.redact(reason))
        state = await control.wait(until_idle=True)
    status = "completed" if state.status == "awaiting" else state.status
    if status in ("running", "suspended"):
        status = "cancelled"
    await end_worker(control, state, status, reason)


async def end_worker(
    control: Control,
    state: WorkerState,
    status: str,
    reason: str | None,
    entries: Sequence[JournalEntry] = (),
    *,
    handoff: str | None = None,
    children: tuple[str, ...] = (),
) -> None:
    """Put the end of a worker on record, once; then leave its folder by its rule."""
    record, home = state.record, control.place.home
    owner = owner_of(state.entries)
    redactor = control.place.environment.redactor
    await Discarder(home, control.place.caller, owner, redactor).discard_tree_below(
        state.key, state.entries
    )
    journal = await open_idle(home, state.key)
    try:
        found = standing(journal.entries)
        if any([type(entry) is WorkerStopped for entry in journal.entries]):
            return
        ends: list[JournalEntry] = []
        if found.unfinished and found.run is not None:
            ends.append(RunEnded(found.run.run_id, "cancelled", reason))
        stopped = WorkerStopped(
            record.id, status, record.name, reason, handoff, children, seams.now()
        )
        redact = control.place.environment.redact
        told = [redact(entry) for entry in (*ends, *entries, stopped)]
        waits = found.suspended is not None and is_watched(found.suspended.conditions)
        await write_end(journal, record, told, waits=waits)
    finally:
        await journal.close()
    control.scope().show(stopped)
    control.workers.forget(home, record.id)
    await leave_place(record)


async def find_children(control: Control) -> list[Control]:
    """Find the workers that a worker spawned, and that are not over."""
    place = control.place
    found: list[Control] = []
    for info in await place.home.sessions():
        record = read_record(info)
        if record is None or record.id != info.id or record.parent is None:
            continue
        if record.parent == control.worker_id or record.parent.startswith(f"{control.worker_id}~"):
            found.append(Control(place, record.id))
    return found


def _check_open(state: WorkerState) -> None:
    if state.is_stopping:
        raise ConfigError(
            f"worker {state.record.id!r} was being stopped when its process ended: call agent_stop again"
        )
    if state.stopped is not None:
        raise ConfigError(
            f"worker {state.record.id!r} is over ({state.stopped.status}): spawn another one"
        )
