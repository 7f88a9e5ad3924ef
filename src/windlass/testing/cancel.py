"""The cancel sweep: interrupt a run at every step of its loop, and check what is left.

It works with any coroutine that can be created again and again.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from windlass.errors import ConfigError, WindlassError, nearest
from windlass.json_types import JsonObject, is_sequence
from windlass.testing.virtual_time import Deadlock, VirtualTimeLoop

Mode: TypeAlias = Literal["cancel", "abort", "aclose", "timeout", "sigint"]
Outcome: TypeAlias = Literal[
    "returned", "cancelled", "timed_out", "interrupted", "raised", "hung", "unfinished"
]

AFTERWARDS = 20_000  # steps for the checks and for closing the loop

#: How a run should end that was interrupted before its end; the others may end as they like.
_ENDS: dict[str, Outcome] = {"cancel": "cancelled", "timeout": "timed_out", "sigint": "interrupted"}


class Trial:
    """One run and its outcome. `notes` is for the run's own use, its abort and its checks."""

    def __init__(self, mode: Mode | None, step: int | None) -> None:
        self.mode, self.step = mode, step
        self.notes: JsonObject = {}
        self.outcome: Outcome = "unfinished"
        self.value: Any = None
        self.error: BaseException | None = None
        self.struck_at: float | None = None
        self.late = False  # the run was over before it could be interrupted
        self.took = 0.0  # seconds of the loop's time from the interruption to the end
        self.steps = 0
        self.troubles: list[tuple[str, str]] = []
        self.scope: asyncio.Timeout | None = None
        self.leave: asyncio.Event | None = None


class Trouble(msgspec.Struct, frozen=True):
    """One problem, and how and at which step the run was interrupted before it."""

    kind: str
    mode: str
    step: int
    what: str


class CancelReport(msgspec.Struct, frozen=True):
    """The result of `cancel_sweep`: `assert_ok()` raises with the problems."""

    trials: dict[str, int]  # for each mode
    steps: dict[str, int]  # of an undisturbed run, for each mode
    late: int  # of all trials, those that came after the run's own end
    slowest: float  # seconds of virtual time from interruption to end
    troubles: tuple[Trouble, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether there was no problem, and at least one interruption."""
        return not self.troubles and sum(self.trials.values()) > self.late

    def assert_ok(self) -> None:
        """Raise an `AssertionError` that shows the first problems."""
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        swept = ", ".join(f"{mode} {count}" for mode, count in self.trials.items())
        lines = [
            f"{sum(self.trials.values())} interruptions ({swept}), {self.late} too late; slowest "
            f"return {self.slowest * 1000:.0f} ms of virtual time; {len(self.troubles)} troubles"
        ]
        lines += [
            f"  {it.kind} ({it.mode} at step {it.step}): {it.what}" for it in self.troubles[:10]
        ]
        if len(self.troubles) > 10:
            lines.append(f"  … and {len(self.troubles) - 10} more")
        return "\n".join(lines)


def cancel_sweep(
    make_run: Callable[[Trial], Coroutine[Any, Any, Any]],
    *,
    modes: Sequence[Mode] = ("cancel", "timeout", "sigint"),
    abort: Callable[[Trial], None] | None = None,
    stream: Callable[[Trial], Any] | None = None,
    check: Callable[[Trial], Any] | Iterable[Callable[[Trial], Any]] = (),
    every: int = 1,
    within: float = 0.1,
    may_finish: bool = False,
    seed: int | None = None,
    ignore_threads: Sequence[str] = (),
) -> CancelReport:
    """Interrupt a run at each step of its event loop, in every way, and return a report.

    ```python
    def make_run(trial):
        return Agent(scripted(call("add", a=1), "2"), tools=[add]).run("go")

    cancel_sweep(make_run, check=history_is_paired).assert_ok()
    ```
    `cancel` cancels its task, `timeout` expires an `asyncio.timeout` around it, `sigint` is Ctrl-C
    under `asyncio.Runner`. `abort` calls the function given, and `aclose` leaves what
    `stream(trial)` returned (an async context manager or iterator) in the middle.

    After each interruption nothing may be left: no task, no new thread, no open descriptor, no
    warning of the loop. The end must come `within` seconds of virtual time. `check` adds checks of
    your own: it gets the trial, may be async, and raises or returns what is wrong. A run that
    ignores the interruption and returns is a problem too, unless `may_finish`. Threads with a
    prefix in `ignore_threads` are ignored.
    """
    for mode in modes:
        if mode not in get_args(Mode):
            raise ConfigError(f"cancel_sweep has no mode {mode!r}{nearest(mode, get_args(Mode))}")
    if "abort" in modes and abort is None:
        raise ConfigError("cancel_sweep: the mode 'abort' needs abort=, a function of the trial")
    if "aclose" in modes and stream is None:
        raise ConfigError("cancel_sweep: the mode 'aclose' needs stream=, a function of the trial")
    checks = (check,) if callable(check) else tuple(check)
    sweep = _Sweep(make_run, abort, stream, checks, within, may_finish, seed, tuple(ignore_threads))
    return sweep.run(modes, every)


class _Sweep:
    def __init__(
        self,
        make_run: Callable[[Trial], Coroutine[Any, Any, Any]],
        abort: Callable[[Trial], None] | None,
        stream: Callable[[Trial], Any] | None,
        checks: Sequence[Callable[[Trial], Any]],
        within: float,
        may_finish: bool,
        seed: int | None,
        ignore_threads: tuple[str, ...],
    ) -> None:
        self.make_run, self.abort, self.stream, self.checks = make_run, abort, stream, checks
        self.within, self.may_finish, self.seed = within, may_finish, seed
        self.ignore_threads = ignore_threads
        self.limit = 1_000_000  # steps; a run that was interrupted needs few

    def run(self, modes: Sequence[Mode], every: int) -> CancelReport:
        began = time.perf_counter()
        steps: dict[str, int] = {}
        trials: dict[str, int] = {}
        troubles: list[Trouble] = []
        late, slowest = 0, 0.0
        for mode in modes:
            steps[mode] = self._count_points(mode)
            self.limit = 20 * steps[mode] + 2000
            for step in range(1, steps[mode] + 1, every):
                trial = self.play(mode, step)
                trials[mode] = trials.get(mode, 0) + 1
                late += trial.late
                slowest = max(slowest, trial.took)
                troubles += [Trouble(kind, mode, step, what) for kind, what in trial.troubles]
        seconds = time.perf_counter() - began
        return CancelReport(trials, steps, late, slowest, tuple(troubles), seconds)

    def _count_points(self, mode: Mode) -> int:
        self.play(mode, None)  # what is loaded or opened once and for all is no leak of a run
        trial = self.play(mode, None)
        if trial.outcome != "returned" or trial.troubles:
            problems = "; ".join(f"{kind}: {what}" for kind, what in trial.troubles)
            raise WindlassError(
                f"the run fails even when nobody interrupts it ({trial.outcome}: {problems})"
            ) from trial.error
        return trial.steps

    def play(self, mode: Mode, step: int | None) -> Trial:
        """Run one trial from beginning to end."""
        trial = Trial(mode, step)
        before = _held_resources(self.ignore_threads)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                self._in_loop(trial)
            except Exception as error:  # of closing the loop
                trial.troubles.append(("left", f"the loop does not close: {error!r}"))
        trial.troubles += [
            ("warned", str(warning.message))
            for warning in warned
            if issubclass(warning.category, (ResourceWarning, RuntimeWarning))
        ]
        trial.troubles += [("left", held) for held in _held_resources(self.ignore_threads) - before]
        return trial

    def _in_loop(self, trial: Trial) -> None:
        loop = VirtualTimeLoop(self.seed, single_step=True)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop()
            loop.set_exception_handler(
                lambda _, said: trial.troubles.append(("complaint", _complaint(said)))
            )
            main = self._main(trial)
            loop.on_step = lambda step: self._step(trial, step, loop, main)
            with _DefaultSigint(trial.mode == "sigint"):
                self._await(runner, main, trial)
            trial.steps = loop.steps
            if trial.step is not None and trial.struck_at is None:
                trial.late = True  # a thread was faster than before: it took fewer steps this time
            loop.on_step = _stop_at(loop.steps + AFTERWARDS)
            if trial.struck_at is not None:
                trial.took = loop.time() - trial.struck_at
            _let_go(trial.error)
            gc.collect(1)  # a task that failed may hold itself; it complains only when it goes
            trial.troubles += [
                ("left", f"a task that still runs: {it}") for it in _leftover_coroutines(loop)
            ]
            self._judge(trial)
            self._check(runner, trial)

    def _main(self, trial: Trial) -> Coroutine[Any, Any, Any]:
        if trial.mode == "timeout":
            return _run_with_timeout(self.make_run, trial)
        if trial.mode == "aclose":
            return _read_stream(cast("Callable[[Trial], Any]", self.stream), trial)
        return self.make_run(trial)

    def _await(self, runner: asyncio.Runner, main: Coroutine[Any, Any, Any], trial: Trial) -> None:
        try:
            trial.value = runner.run(main)
            trial.outcome = "returned"
        except BaseException as error:
            trial.error = error
            match error:
                case asyncio.CancelledError():
                    trial.outcome = "cancelled"
                case TimeoutError():
                    trial.outcome = "timed_out"
                case KeyboardInterrupt():
                    trial.outcome = "interrupted"
                case Deadlock():
                    trial.outcome = "hung"
                case _:
                    trial.outcome = "raised"

    def _step(
        self,
        trial: Trial,
        step: int,
        loop: VirtualTimeLoop,
        main: Coroutine[Any, Any, Any],
    ) -> None:
        if step > self.limit:
            raise Deadlock(f"it still runs {step} steps after its start")
        if step != trial.step:
            return
        task = next((t for t in asyncio.all_tasks(loop) if t.get_coro() is main), None)
        if task is None:
            trial.late = True
            return
        trial.struck_at = loop.time()
        match trial.mode:
            case "cancel":
                task.cancel()
            case "abort":
                cast("Callable[[Trial], None]", self.abort)(trial)
            case "sigint":
                signal.raise_signal(signal.SIGINT)
            case "timeout":
                if trial.scope is not None:
                    with suppress(RuntimeError):  # the block has been left already
                        trial.scope.reschedule(loop.time())
            case _:
                if trial.leave is not None:
                    trial.leave.set()

    def _judge(self, trial: Trial) -> None:
        if trial.outcome == "hung":
            trial.troubles.append(("hung", str(trial.error)))
            return
        if trial.scope is not None and trial.outcome == "returned" and not trial.scope.expired():
            trial.late = True  # it was over in the very moment in which its time was up
        if trial.step is None or trial.late:
            if trial.outcome != "returned":
                trial.troubles.append(("raised", repr(trial.error)))
            return
        due = _ENDS.get(trial.mode or "")
        if trial.outcome == "raised" and (due or not isinstance(trial.error, WindlassError)):
            trial.troubles.append(("raised", repr(trial.error)))
        elif due and trial.outcome != due and not (self.may_finish and trial.outcome == "returned"):
            trial.troubles.append(("swallowed", f"it {trial.outcome} instead of being {due}"))
        if trial.took > self.within:
            trial.troubles.append(("slow", f"it took {trial.took:g} s to end"))

    def _check(self, runner: asyncio.Runner, trial: Trial) -> None:
        for check in self.checks:
            try:
                wrong = check(trial)
                if inspect.iscoroutine(wrong):
                    wrong = runner.run(cast("Coroutine[Any, Any, Any]", wrong))
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                several = wrong if is_sequence(wrong) else [wrong]
                trial.troubles += [("promise", str(one)) for one in several]


def _leftover_coroutines(loop: VirtualTimeLoop) -> list[Any]:
    # An async generator that was not closed is closed by Python itself, in a task of its own.
    coroutines = [task.get_coro() for task in asyncio.all_tasks(loop)]
    return [it for it in coroutines if type(it).__name__ != "async_generator_athrow"]


def _let_go(error: BaseException | None) -> None:
    """Drop the frames that an error keeps alive: what only they hold is not held by the run."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _stop_at(limit: int) -> Callable[[int], None]:
    def step(number: int) -> None:
        if number > limit:
            raise Deadlock("what was left behind does not end when it is cancelled")

    return step


async def _run_with_timeout(
    make_run: Callable[[Trial], Coroutine[Any, Any, Any]], trial: Trial
) -> Any:
    async with asyncio.timeout(None if trial.struck_at is None else 0) as trial.scope:
        return await make_run(trial)


async def _read_stream(stream: Callable[[Trial], Any], trial: Trial) -> list[Any]:
    """Read a stream to its end, or leave it at once when told to."""
    trial.leave = asyncio.Event()
    if trial.struck_at is not None:
        trial.leave.set()
    source = stream(trial)
    async with source if hasattr(source, "__aenter__") else aclosing(source) as entered:
        items = aiter(entered)
        seen: list[Any] = []
        while not trial.leave.is_set():
            try:
                item = await _unless_left(items, trial.leave)
            except (StopAsyncIteration, asyncio.CancelledError):
                break
            seen.append(item)
    return seen


async def _unless_left(items: AsyncIterator[Any], leave: asyncio.Event) -> Any:
    async def advance() -> Any:
        return await anext(items)

    def give_up(_waiting: object) -> None:
        item.cancel()

    item = asyncio.ensure_future(advance())
    leaving = asyncio.ensure_future(leave.wait())
    leaving.add_done_callback(give_up)
    try:
        return await item
    finally:
        leaving.remove_done_callback(give_up)
        leaving.cancel()
        await asyncio.wait([leaving])


class _DefaultSigint:
    """Python's own SIGINT handler, which asyncio.Runner needs to cancel on Ctrl-C."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        if self.wanted:
            if threading.current_thread() is not threading.main_thread():
                raise ConfigError("cancel_sweep: the mode 'sigint' works in the main thread only")
            self.before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            signal.signal(signal.SIGINT, self.before)


def _held_resources(ignore_threads: tuple[str, ...]) -> set[str]:
    """Describe the threads and descriptors of this process."""
    held = {
        f"a thread: {thread.name} ({thread.ident})"
        for thread in threading.enumerate()
        if not thread.name.startswith(ignore_threads or ("\0",)) and not _is_pooled(thread)
    }
    try:
        fds = os.listdir("/proc/self/fd")
    except OSError:  # not Linux
        return held
    for fd in fds:
        with suppress(OSError):  # the one that listed the folder is closed by now
            held.add(f"an open descriptor: {os.readlink(f'/proc/self/fd/{fd}')} ({fd})")
    return held


def _is_pooled(thread: threading.Thread) -> bool:
    """Check whether it is a thread of a Runtime that waits for tools: the next ones use it again."""
    if not thread.name.startswith("windlass-tool"):
        return False
    frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
    return frame is not None and frame.f_code.co_name == "_worker"


def _complaint(said: JsonObject) -> str:
    return f"{said.get('message')}: {said['exception']!r}" if "exception" in said else str(said)
