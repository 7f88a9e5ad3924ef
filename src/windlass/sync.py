"""The same names, blocking: for scripts, threads, and notebooks with a running loop.

Everything runs on one background event loop per process. `KeyboardInterrupt` cancels the call.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
GOODBYE = 1.0  # seconds that connections get to close when the process ends
INTERRUPTED = 5.0  # seconds for a run to put its end on record after Ctrl-C

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_left_behind: list[object] = []  # loops of the process that this one was forked from


def _in_child() -> None:
    """Reset the loop in a forked child, which has no thread for it."""
    global _lock, _loop
    _left_behind.append(_loop)  # unclosed: what it holds open is the parent's
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for its result."""
    loop = _background()
    if threading.current_thread().name == "windlass-loop":
        work.close()
        raise RuntimeError("a blocking call inside the background loop would wait for itself")
    context = contextvars.copy_context()
    tasks: list[asyncio.Task[T]] = []
    ended = (
        threading.Lock()
    )  # not an Event: an interrupt inside one may leave its lock taken for ever
    ended.acquire()

    def begin() -> None:
        task = loop.create_task(work, context=context)
        tasks.append(task)
        task.add_done_callback(lambda _: ended.release())

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    try:
        loop.call_soon_threadsafe(begin)
        ended.acquire()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(cancel)  # after `begin`, also if that still waits
        ended.acquire(timeout=INTERRUPTED)
        raise
    return tasks[0].result()


def _background() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_loop.run_forever, name="windlass-loop", daemon=True)
            thread.start()
            atexit.register(_close, _loop, thread)
        return _loop


def _close(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Close the loop and what belongs to it at the end of the process."""
    if not thread.is_alive():  # a forked child has the loop and not its thread
        return
    with suppress(Exception):
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(GOODBYE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(GOODBYE)
    if not thread.is_alive():
        loop.close()


def _blocking(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wait(function(*args, **kwargs))

    return call


def _iterating(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
        source = function(*args, **kwargs)
        try:
            while True:
                try:
                    yield wait(source.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            wait(source.aclose())

    return call


def _public() -> ModuleType:
    """Return the package, which is not complete yet while this module is imported."""
    import windlass

    return windlass


def __getattr__(name: str) -> Any:
    value = getattr(_public(), name, None)
    if inspect.iscoroutinefunction(value):
        return _blocking(value)
    if inspect.isasyncgenfunction(value):
        return _iterating(value)
    raise AttributeError(
        f"windlass.sync has no {name!r}: only async functions have a blocking form"
    )


def __dir__() -> list[str]:
    package = _public()
    values = {n: getattr(package, n) for n in vars(package)["_HOME"]}
    return sorted(
        n
        for n, v in values.items()
        if inspect.iscoroutinefunction(v) or inspect.isasyncgenfunction(v)
    )
