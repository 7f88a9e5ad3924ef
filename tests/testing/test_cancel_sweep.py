"""The cancel sweep finds what an interruption leaves behind, and clears what leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from contextlib import asynccontextmanager

import pytest

from windlass.errors import Aborted, ConfigError, WindlassError
from windlass.testing import cancel_sweep

ALL = ("cancel", "timeout", "sigint")


async def pause(seconds: float = 0.01) -> None:
    await asyncio.sleep(seconds)


async def sound(trial) -> str:
    """Three turns of two calls side by side; whatever happens, every call is answered."""
    calls = trial.notes["calls"] = {}
    for turn in range(3):
        names = [f"{turn}a", f"{turn}b"]
        calls.update(dict.fromkeys(names))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in names:
                    group.create_task(pause())
            calls.update(dict.fromkeys(names, "ok"))
        finally:
            calls.update({name: "not run" for name in names if calls[name] is None})
    return "done"


def every_call_is_answered(trial):
    return [
        f"{name} has no answer"
        for name, answer in trial.notes.get("calls", {}).items()
        if not answer
    ]


def kinds(report) -> set[str]:
    return {trouble.kind for trouble in report.troubles}


def test_a_sound_run_is_cleared_in_every_mode():
    report = cancel_sweep(sound, modes=ALL, check=every_call_is_answered)
    report.assert_ok()
    assert report.trials["cancel"] > 15
    assert report.late < 5
    assert report.slowest <= 0.1


def test_a_run_that_takes_fewer_steps_than_before_is_late():
    async def uneven(trial):
        for _ in range(3 if trial.step else 9):
            await asyncio.sleep(0)

    report = cancel_sweep(uneven, modes=("cancel",))
    report.assert_ok()
    assert report.steps["cancel"] > 8 and report.late > 4


def test_a_leaked_task_is_caught():
    async def forgets(trial):
        trial.notes["task"] = asyncio.create_task(pause(5))
        await asyncio.shield(trial.notes["task"])

    report = cancel_sweep(forgets, modes=("cancel",))
    assert kinds(report) == {"left"}
    assert "pause" in str(report)


def test_a_call_without_an_answer_is_caught():
    async def hasty(trial):
        calls = trial.notes["calls"] = {}
        for name in "abc":
            calls[name] = None
            await pause()
            calls[name] = "ok"

    report = cancel_sweep(hasty, modes=("cancel",), check=every_call_is_answered)
    assert kinds(report) == {"promise"}
    assert {trouble.what for trouble in report.troubles} == {
        "a has no answer",
        "b has no answer",
        "c has no answer",
    }


def test_checks_may_be_async_and_may_raise():
    async def raises(trial):
        await pause()
        assert trial.outcome == "returned", "it was cut off"

    report = cancel_sweep(sound, modes=("cancel",), check=[every_call_is_answered, raises])
    assert kinds(report) == {"promise"}
    assert "it was cut off" in str(report)


@pytest.mark.parametrize("mode", ALL)
def test_a_run_that_takes_no_notice_is_caught(mode):
    async def stubborn(trial):
        try:
            await pause()
        except asyncio.CancelledError:
            pass

    report = cancel_sweep(stubborn, modes=(mode,))
    assert "swallowed" in kinds(report)
    allowed = cancel_sweep(stubborn, modes=("cancel",), may_finish=True)
    # a task that is cancelled before its first step never gets the chance to look away
    assert {trouble.step for trouble in allowed.troubles} <= {1}


def test_a_slow_end_is_caught():
    async def dawdles(trial):
        try:
            await pause()
        finally:
            await pause(0.5)

    report = cancel_sweep(dawdles, modes=("cancel",), within=0.1)
    assert kinds(report) == {"slow"}
    assert report.slowest == pytest.approx(0.5)
    assert cancel_sweep(dawdles, modes=("cancel",), within=0.6).ok


def test_a_run_that_never_ends_is_caught():
    async def waits_for_nobody(trial):
        try:
            await pause()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    assert "hung" in kinds(cancel_sweep(waits_for_nobody, modes=("cancel",)))


def test_a_task_that_cannot_be_cancelled_is_caught_and_does_not_hang_the_sweep():
    async def immortal(trial):
        while trial.struck_at is not None or not trial.notes:
            try:
                await pause()
                if trial.struck_at is None:
                    trial.notes["done"] = True
            except asyncio.CancelledError:
                pass

    report = cancel_sweep(immortal, modes=("cancel",), every=2)
    assert "hung" in kinds(report)


def test_an_open_descriptor_is_caught():
    kept = []

    async def opens(trial):
        one, other = socket.socketpair()
        await pause()
        one.close()
        other.close()

    async def keeps(trial):
        read, write = os.pipe()
        kept.extend([read, write])
        await pause()
        for fd in (read, write):
            os.close(fd)
            kept.remove(fd)

    assert {"warned"} == kinds(cancel_sweep(opens, modes=("cancel",)))
    try:
        report = cancel_sweep(keeps, modes=("cancel",))
        assert kinds(report) == {"left"}
        assert "pipe" in str(report)
    finally:
        for fd in kept:
            os.close(fd)


def test_a_new_thread_is_caught():
    stop = threading.Event()

    async def starts(trial):
        await pause()
        thread = threading.Thread(target=stop.wait, name="helper")
        thread.start()
        try:
            await pause()
        except asyncio.CancelledError:
            raise
        stop.set()
        thread.join()
        stop.clear()

    try:
        assert "helper" in str(cancel_sweep(starts, modes=("cancel",)))
        stop.set()
        stop.clear()
        assert cancel_sweep(starts, modes=("cancel",), ignore_threads=("helper",)).ok
    finally:
        stop.set()


def test_an_exception_nobody_looked_at_is_caught():
    async def fails():
        try:
            await pause()
        except asyncio.CancelledError:
            raise ValueError("in the background") from None

    async def careless(trial):
        task = asyncio.create_task(fails())
        try:
            await pause(0.02)
            await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise

    report = cancel_sweep(careless, modes=("cancel",))
    assert "complaint" in kinds(report)
    assert "in the background" in str(report)


def test_another_error_in_place_of_the_cancellation_is_caught():
    async def confuses(trial):
        try:
            await pause()
        except asyncio.CancelledError:
            raise KeyError("lost") from None

    assert kinds(cancel_sweep(confuses, modes=("cancel",))) == {"raised"}


def test_abort_ends_a_run_through_its_own_door():
    async def polite(trial):
        wish = trial.notes["abort"] = asyncio.Event()
        work = asyncio.create_task(pause(1))
        wait = asyncio.create_task(wish.wait())
        try:
            await asyncio.wait([work, wait], return_when="FIRST_COMPLETED")
            if wish.is_set():
                raise Aborted("as you wish")
            return "done"
        finally:
            for task in (work, wait):
                task.cancel()
            await asyncio.wait([work, wait])

    def abort(trial):
        if "abort" in trial.notes:
            trial.notes["abort"].set()

    report = cancel_sweep(polite, modes=("abort",), abort=abort, within=1)
    report.assert_ok()
    deaf = cancel_sweep(polite, modes=("abort",), abort=lambda trial: None, within=0.1)
    assert "slow" in kinds(deaf)


def numbers_from(closes: bool):
    @asynccontextmanager
    async def numbers(trial):
        queue = asyncio.Queue()

        async def produce():
            for number in range(4):
                await pause()
                queue.put_nowait(number)
            queue.put_nowait(None)

        async def items():
            while (item := await queue.get()) is not None:
                yield item

        producer = asyncio.create_task(produce())
        try:
            yield items()
        finally:
            if closes:
                producer.cancel()
                await asyncio.wait([producer])

    return numbers


def test_leaving_a_stream_in_the_middle():
    report = cancel_sweep(sound, modes=("aclose",), stream=numbers_from(closes=True))
    report.assert_ok()
    assert report.trials["aclose"] > 10
    leaky = cancel_sweep(sound, modes=("aclose",), stream=numbers_from(closes=False))
    assert kinds(leaky) == {"left"}


def test_leaving_a_plain_async_generator():
    async def numbers(trial):
        for number in range(3):
            await pause()
            yield number

    cancel_sweep(sound, modes=("aclose",), stream=numbers).assert_ok()


def test_work_on_a_thread_is_waited_for():
    async def threaded(trial):
        await asyncio.to_thread(time.sleep, 0.001)
        return await asyncio.to_thread(threading.get_ident)

    report = cancel_sweep(threaded, modes=("cancel",), seed=5)
    report.assert_ok()


def test_ctrl_c_afterwards_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    cancel_sweep(sound, modes=("sigint",), every=9)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_that_fails_by_itself_is_no_sweep():
    async def broken(trial):
        raise KeyError("always")

    with pytest.raises(WindlassError, match="always"):
        cancel_sweep(broken)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"modes": ("cancle",)}, "did you mean 'cancel'"),
        ({"modes": ("abort",)}, "needs abort="),
        ({"modes": ("aclose",)}, "needs stream="),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        cancel_sweep(sound, **options)
