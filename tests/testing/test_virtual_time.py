"""The virtual-time loop: it jumps when nothing happens, and never over work that does."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

import pytest

from windlass import seams
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import Deadlock, VirtualTimeLoop, run_virtual
from windlass.testing.store_pieces import add, note
from windlass.testing.virtual_time import EPOCH, START


def elapsed() -> float:
    return asyncio.get_running_loop().time() - START


def test_a_day_passes_in_a_moment():
    async def main():
        await asyncio.sleep(86_400)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3600)
        return elapsed()

    assert run_virtual(main()) == 86_400 + 3600


def test_sleepers_wake_in_the_order_of_their_time():
    async def main():
        woken = []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            woken.append((seconds, round(elapsed(), 9)))

        await asyncio.gather(*map(sleeper, (3, 0.1, 2.5, 0.2)))
        return woken

    assert run_virtual(main()) == [(0.1, 0.1), (0.2, 0.2), (2.5, 2.5), (3, 3)]


def test_a_timer_in_years_is_exact():
    async def main():
        await asyncio.sleep(3 * 365 * 86_400.25)
        return elapsed()

    assert run_virtual(main()) == 3 * 365 * 86_400.25


def test_the_seams_show_the_loops_clock_and_get_their_own_back():
    async def main():
        before = seams.now(), seams.monotonic()
        await seams.sleep(60)
        return seams.now() - before[0], seams.monotonic() - before[1], seams.now()

    real = seams.now, seams.monotonic, seams.sleep, seams.new_id, seams.rng
    assert run_virtual(main()) == (60, 60, EPOCH + 60)
    assert (seams.now, seams.monotonic, seams.sleep, seams.new_id, seams.rng) == real


def test_work_in_an_executor_is_not_jumped_over():
    async def main():
        answer = await asyncio.wait_for(
            asyncio.to_thread(lambda: time.sleep(0.01) or "worked"), timeout=0.001
        )
        return answer, elapsed()

    assert run_virtual(main()) == ("worked", 0)


def test_work_on_a_thread_of_its_own_is_not_jumped_over():
    """As a store's writer does it: a queue, a plain thread, and a call back into the loop."""

    async def main():
        loop = asyncio.get_running_loop()
        orders: queue.SimpleQueue = queue.SimpleQueue()

        def writer():
            while (future := orders.get()) is not None:
                sum(range(5000))
                loop.call_soon_threadsafe(future.set_result, None)

        thread = threading.Thread(target=writer)
        thread.start()
        try:
            for _ in range(200):
                future = loop.create_future()
                orders.put(future)
                await asyncio.wait_for(future, timeout=0.001)
            return elapsed()
        finally:
            orders.put(None)
            thread.join()

    assert run_virtual(main()) == 0


def test_a_store_that_gathers_rows_is_not_jumped_over(tmp_path):
    async def main():
        store = SqliteStore(tmp_path / "s.db")
        journals = [await store.open(f"s{number}") for number in range(8)]
        for number in range(80):  # one session at a time: its writer waits for rows of the others
            await asyncio.wait_for(add(journals[number % 8], note(number)), timeout=0.001)
        for journal in journals:
            await journal.close()
        await store.aclose()
        return elapsed()

    assert run_virtual(main()) == 0


def test_a_thread_that_waits_for_us_does_not_stop_the_clock():
    async def main():
        flag = threading.Event()
        stuck = asyncio.get_running_loop().run_in_executor(None, flag.wait)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(stuck), 30)
        flag.set()
        assert await stuck
        return elapsed()

    assert run_virtual(main(), patience=0.01) == 30


def test_idle_threads_cost_no_patience():
    async def main():
        await asyncio.to_thread(int)  # leaves an idle worker behind
        for _ in range(100):
            await asyncio.sleep(60)
        return elapsed()

    began = time.perf_counter()
    assert run_virtual(main(), patience=60) == 6000
    assert time.perf_counter() - began < 30, "it did not wait for a thread without work"


def test_both_ends_of_a_connection_on_the_loop_need_no_patience():
    async def main():
        async def serve(reader, writer):
            while line := await reader.readline():
                await asyncio.sleep(30)
                writer.write(line.upper())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        answers = []
        for word in (b"a\n", b"b\n"):
            writer.write(word)
            answers.append(await asyncio.wait_for(reader.readline(), 60))
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answers, elapsed()

    began = time.perf_counter()
    assert run_virtual(main(), patience=60) == ([b"A\n", b"B\n"], 60)
    assert time.perf_counter() - began < 30


def test_a_peer_in_another_thread_gets_real_time():
    async def main():
        import socket

        near, far = socket.socketpair()
        near.setblocking(False)

        def answer():
            word = far.recv(10)
            time.sleep(0.01)
            far.send(word.upper())
            far.close()

        thread = threading.Thread(target=answer)
        thread.start()
        reader, writer = await asyncio.open_connection(sock=near)
        writer.write(b"hi")
        said = await asyncio.wait_for(reader.read(10), timeout=0.001)
        writer.close()
        await writer.wait_closed()
        thread.join()
        return said, elapsed()

    assert run_virtual(main(), patience=5) == (b"HI", 0)


def test_waiting_for_nobody_is_a_deadlock_that_shows_who_waits():
    async def waits_for_ever():
        await asyncio.Event().wait()

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_ever(), name="the-waiter")

    with pytest.raises(Deadlock) as caught:
        run_virtual(main())
    assert "the-waiter" in str(caught.value)
    assert "waits_for_ever" in str(caught.value)
    assert "Event.wait" in str(caught.value)


def order(seed: int | None) -> list[int]:
    async def main():
        seen = []

        async def worker(number):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(number)

        await asyncio.gather(*map(worker, range(6)))
        return seen

    return run_virtual(main(), seed)


def test_a_seed_shuffles_and_repeats():
    assert order(None) == [0, 1, 2, 3, 4, 5] * 3
    assert order(7) == order(7)
    assert len({tuple(order(seed)) for seed in range(8)}) > 4
    assert sorted(order(7)) == sorted(order(None))


def test_a_seed_repeats_ids_and_chance():
    async def main():
        return [seams.new_id("run"), seams.new_id("run"), seams.rng.random()]

    assert run_virtual(main(), 3) == run_virtual(main(), 3)
    assert run_virtual(main(), 3) != run_virtual(main(), 4)
    assert run_virtual(main()) != run_virtual(main())
    first, second, _ = run_virtual(main(), 3)
    assert first != second


def test_callbacks_keep_their_order_under_a_seed():
    async def main():
        seen = []
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return seen

    assert run_virtual(main(), 5) == list(range(20))


def test_single_steps_run_the_same_program_one_callback_at_a_time():
    def play(single_step):
        loop = VirtualTimeLoop(single_step=single_step)

        async def main():
            seen = []

            async def worker(number):
                for _ in range(3):
                    await asyncio.sleep(0)
                    seen.append(number)

            await asyncio.gather(*map(worker, range(6)))
            return seen

        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            seen = runner.run(main())
            return seen, loop.steps

    (plain, few), (stepped, many) = play(False), play(True)
    assert plain == stepped
    assert many > 2 * few


def test_the_step_hook_counts_and_may_stop_the_loop():
    loop = VirtualTimeLoop()
    numbers = []

    def hook(number):
        numbers.append(number)
        if number == 5:
            raise RuntimeError("far enough")

    async def main():
        for _ in range(100):
            await asyncio.sleep(1)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        loop.on_step = hook
        with pytest.raises(RuntimeError, match="far enough"):
            runner.run(main())
        loop.on_step = None
    assert numbers == [1, 2, 3, 4, 5]
