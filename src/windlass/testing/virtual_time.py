"""An event loop on which a day passes in a moment: its clock jumps when idle.

Threads, sockets and child processes live in real time. The loop does not jump over their work: it
looks at what they are doing (`outside.py`) and gives them real time before it takes the next timer.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from windlass import seams
from windlass.testing.outside import Outside, Work

T = TypeVar("T")

EPOCH = 1_750_000_000.0  # what the wall clock shows when the loop's own shows START
START = 1_000.0
PATIENCE = 0.25  # real seconds for outside work that sleeps: it may wake, or wait for the loop
LOOKS = 25  # and so many looks at it
SURE = 0.25  # seconds: a thread that was just woken may not have had a core yet
STUBBORN = 10.0  # real seconds for outside work that runs, or that alone could wake the loop


class Deadlock(RuntimeError):
    """A loop that would wait forever: nothing is ready, no timer is set, nothing runs outside."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock: `asyncio.sleep(3600)` returns at once.

    Use it as `asyncio.Runner(loop_factory=VirtualTimeLoop)`. `windlass.seams` uses its clock too.
    With a `seed`, tasks that are ready at the same time run in a shuffled order, and ids and random
    numbers repeat: the same seed gives the same run. With `single_step=True` each pass of the loop
    runs one callback; `on_step(number)` is called before every pass.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        single_step: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        self._virtual_now = START
        self._outside = Outside()
        self._rng = None if seed is None else random.Random(seed)
        self._single_step = single_step
        self._patience = patience
        self.steps = 0
        self.on_step: Callable[[int], None] | None = None
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the seconds on the virtual clock."""
        return self._virtual_now

    def run_forever(self) -> None:
        """Run until stopped, with the seams on this clock."""
        with _seams_follow(self, self._rng):
            super().run_forever()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:
        """Run a function in an executor; the clock does not jump over its work."""
        job = self._outside.job(func)
        future = super().run_in_executor(executor, job.run, *args)
        future.add_done_callback(job.on_settled)
        return future

    # ------------------------------------------------------------------ asyncio's own machinery

    def _run_once(self) -> None:
        self.steps += 1
        if self.on_step is not None:
            self.on_step(self.steps)
        ready = cast("deque[asyncio.Handle]", self._ready)  # type: ignore[attr-defined]
        if self._rng is not None and len(ready) > 1:
            _shuffle_tasks(ready, self._rng)
        if not self._single_step:
            super()._run_once()  # type: ignore[misc]
            return
        # Other threads append on the right at any moment: only what was there is set aside.
        waiting = [ready.popleft() for _ in range(len(ready))]
        ready.extendleft(waiting[:1])
        try:
            super()._run_once()  # type: ignore[misc]
        finally:
            ready.extendleft(reversed(waiting[1:]))

    def _idle(self, select: Callable[[float], list[Any]], timeout: float | None) -> list[Any]:
        """Wait for outside work as long as it needs, then jump to the next timer."""
        began = time.perf_counter()
        looks = 0
        while True:
            # the first looks are close together; the selector cannot sleep under a millisecond
            events = select(0.0 if looks < 10 else min(0.001 * (looks - 9), 0.01))
            if events:
                self._outside.reset_patience()
                return events
            work = self._outside.look(self._fds(), for_ever=timeout is None)
            looks += 1
            waited = time.perf_counter() - began
            alone = work is Work.ALONE and (timeout is not None or waited > SURE)
            if alone or (looks > 1 and self._overdue(work, waited, looks, timeout)):
                # A thread may have called the loop and ended before the check.
                if events := select(0.0):
                    return events
                break
            time.sleep(0.00005)  # a thread that was just woken must get the chance to show it
        if timeout is None:
            raise Deadlock(_describe(self))
        self._outside.waited_for()
        self._virtual_now = max(self._virtual_now, self._next_timer(timeout))
        # asyncio takes the timers up to now plus this; years away, a fixed bit would vanish in now
        self._clock_resolution = max(1e-9, 2 * math.ulp(self._virtual_now))
        return []

    def _overdue(self, work: Work, waited: float, looks: int, timeout: float | None) -> bool:
        if work is Work.QUIET:  # to jump is a small thing, to call it a deadlock is not
            return timeout is not None or looks > LOOKS
        if work is Work.RUNS or timeout is None:  # it alone could wake the loop
            return waited > STUBBORN
        # On a busy machine time passes in which none of these threads could run.
        return waited > self._patience and looks > LOOKS

    def _next_timer(self, timeout: float) -> float:
        scheduled = cast("list[asyncio.TimerHandle]", self._scheduled)  # type: ignore[attr-defined]
        # asyncio caps the timeout it asks for; the timer itself is exact.
        return scheduled[0].when() if scheduled else self._virtual_now + timeout

    def _fds(self) -> list[int]:
        own = self._ssock.fileno()  # type: ignore[attr-defined]
        known = cast("selectors.BaseSelector", self._selector).get_map()  # type: ignore[attr-defined]
        return [key.fd for key in known.values() if key.fd != own]


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        return self._loop._idle(super().select, timeout)  # pyright: ignore[reportPrivateUsage]


def run_virtual(
    main: Coroutine[Any, Any, T], seed: int | None = None, *, patience: float = PATIENCE
) -> T:
    """Run a coroutine on a `VirtualTimeLoop`: `run_virtual(agent.run("go"))`."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(seed, patience=patience)) as runner:
        return runner.run(main)


def open_runner(seed: int | None = None) -> asyncio.Runner:
    """Return a runner with an open `VirtualTimeLoop`, which the caller closes."""
    loop = VirtualTimeLoop(seed)
    runner = asyncio.Runner(loop_factory=lambda: loop)
    runner.get_loop()
    return runner


@contextmanager
def _seams_follow(loop: VirtualTimeLoop, rng: random.Random | None) -> Generator[None]:
    before = seams.now, seams.monotonic, seams.sleep, seams.rng, seams.new_id
    was_virtual, seams.virtual = seams.virtual, True
    seams.now = lambda: EPOCH + loop.time() - START
    seams.monotonic = loop.time
    seams.sleep = asyncio.sleep
    if rng is not None:
        ids = random.Random(rng.random())
        seams.rng = random.Random(rng.random())
        seams.new_id = lambda prefix: f"{prefix}_{ids.getrandbits(72):018x}"
    try:
        yield
    finally:
        seams.now, seams.monotonic, seams.sleep, seams.rng, seams.new_id = before
        seams.virtual = was_virtual


def _shuffle_tasks(ready: deque[asyncio.Handle], rng: random.Random) -> None:
    """Shuffle the steps of tasks among themselves.

    asyncio promises that plain callbacks run in the order given, and transports build on it.
    """
    places = [place for place, handle in enumerate(ready) if _steps_a_task(handle)]
    if len(places) > 1:
        handles = [ready[place] for place in places]
        rng.shuffle(handles)
        for place, handle in zip(places, handles, strict=True):
            ready[place] = handle


def _steps_a_task(handle: asyncio.Handle) -> bool:
    callback = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def _describe(loop: VirtualTimeLoop) -> str:
    lines = [
        "deadlock: nothing is ready, no timer is set and nobody outside is at work; "
        "these tasks wait for each other or for nobody:"
    ]
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        lines.append(f"  {task.get_name()}: {_coroutine_name(task)}")
        lines += [
            f"    {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
            for frame in _frames(task)
        ]
    return "\n".join(lines)


def _coroutine_name(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", repr(coroutine))


def _frames(task: asyncio.Task[Any]) -> list[Any]:
    """Return the frames of everything the task awaits, outermost first."""
    frames: list[Any] = []
    at: Any = task.get_coro()
    while at is not None:
        frame = getattr(at, "cr_frame", None) or getattr(at, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        at = getattr(at, "cr_await", None) or getattr(at, "gi_yieldfrom", None)
    return frames
