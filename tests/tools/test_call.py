"""Whatever a handler does, the model gets a result; only cancellation passes through."""

import asyncio
import contextvars
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.tools.helpers import call, context
from windlass.messages import Document, Image, Text, ToolResult
from windlass.tools.function import as_tool, tool
from windlass.tools.tool import (
    Parked,
    Retry,
    Tool,
    ToolContext,
)

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def returning(value: Any, **options: Any) -> Tool:
    async def f() -> Any:
        return value

    return tool(**options)(f)


def raising(error: BaseException) -> list[Tool]:
    async def later() -> None:
        raise error

    def now() -> None:
        raise error

    return [as_tool(later), as_tool(now), Tool("hand", handler=lambda args: now())]


@dataclass
class Money:
    amount: int


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("hi", "hi"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        ([1, "a"], '[1,"a"]'),
        ((), "[]"),
        ({"a": None}, '{"a":null}'),
        (Money(3), '{"amount":3}'),
        ("\ud800", "?"),
        (Text("a"), (Text("a"),)),
        (Image(url="https://h/u"), (Image(url="https://h/u"),)),
        (
            [Text("a"), "b", Document(url="https://h/d"), 3],
            (Text("a"), Text("b"), Document(url="https://h/d"), Text("3")),
        ),
        ([Text("\udfff")], (Text("?"),)),
    ],
)
async def test_answers_become_content(value: Any, content: Any) -> None:
    assert await call(returning(value)) == ToolResult(content=content)


async def test_a_ready_result_keeps_its_outcome() -> None:
    ready = ToolResult(content="no", is_error=True, outcome="denied")
    assert await call(returning(ready)) is ready
    vague = ToolResult(content="no such order", is_error=True)
    assert (await call(returning(vague))).outcome == "error"
    odd = ToolResult(content=[Text("a"), {"b": 1}])  # pyright: ignore
    assert (await call(returning(odd))).content == (Text("a"), Text('{"b":1}'))
    assert (await call(returning(ToolResult(content={"a": 1})))).content == '{"a":1}'  # pyright: ignore
    assert (await call(returning(ToolResult(content="\ud800")))).content == "?"


async def test_retry_is_told_in_its_own_words() -> None:
    for made in raising(Retry("amount must be positive")):
        result = await made.call({}, context())
        assert result == ToolResult(
            content="amount must be positive", is_error=True, outcome="retry"
        )
    assert (await raising(Retry())[0].call({}, context())).content


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (ValueError("\ud800"), "ValueError: ?"),
        (Mute(), "Mute"),
        (SystemExit(3), "SystemExit: 3"),
        (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
        (TimeoutError("slow"), "TimeoutError: slow"),
    ],
)
async def test_exceptions_are_error_results_without_a_traceback(
    error: BaseException, content: str
) -> None:
    for made in raising(error):
        result = await made.call({}, context())
        assert result == ToolResult(content=content, is_error=True, outcome="error")


async def test_stop_iteration_neither_hangs_nor_ends_anything() -> None:
    in_coroutine, in_thread, by_hand = raising(StopIteration("x"))
    for made, name in [(in_thread, "StopIteration"), (by_hand, "StopIteration")]:
        async with asyncio.timeout(5):
            assert (await made.call({}, context())).content == f"{name}: x"
    result = await in_coroutine.call({}, context())
    assert result.content == "RuntimeError: coroutine raised StopIteration"


async def test_an_error_is_of_bounded_length() -> None:
    for made in raising(ValueError("é" * 1_000_000)):
        content = (await made.call({}, context())).content
        assert len(content.encode()) <= 8192
        assert content.startswith("ValueError: éé") and content.endswith("é…")


async def test_cancellation_passes_through() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.sleep(3600)

    task = asyncio.create_task(as_tool(wait).call({}, context()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_handler_that_cancels_only_itself_is_an_error() -> None:
    async def own_doing() -> None:
        inner = asyncio.create_task(asyncio.sleep(3600))
        inner.cancel()
        await inner

    result = await as_tool(own_doing).call({}, context())
    assert (result.outcome, result.content) == ("error", "CancelledError")
    for made in raising(asyncio.CancelledError()):
        assert (await made.call({}, context())).outcome == "error"


async def test_keyboard_interrupt_passes_through() -> None:
    async def stop() -> None:
        raise KeyboardInterrupt

    coroutine = as_tool(stop).call({}, context())
    with pytest.raises(KeyboardInterrupt):
        coroutine.send(None)


async def test_only_keyed_tools_may_park() -> None:
    parked = Parked("waiting for ann", {"event": "approval"})
    assert await call(returning(parked, keyed=True)) is parked
    refused = await call(returning(parked))
    assert refused.is_error and "keyed=True" in refused.content


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ((x for x in "ab"), r"list\(…\)"),
        (iter([1]), r"list\(…\)"),
        (map(str, [1]), r"list\(…\)"),
    ],
)
async def test_what_can_be_read_only_once_is_refused_with_the_fix(value: Any, fix: str) -> None:
    result = await call(returning(value))
    assert result.outcome == "error"
    assert re.search(fix, result.content)


async def test_async_generators_and_forgotten_awaits_are_refused() -> None:
    async def numbers():
        yield 1

    async def forgotten() -> int:
        return 1

    assert "async for" in (await call(returning(numbers()))).content
    assert "nobody awaited" in (await call(returning(forgotten()))).content


async def test_synchronous_handlers_run_in_the_pool_with_the_context_copied() -> None:
    def look() -> str:
        seen = f"{threading.current_thread().name} {colour.get()}"
        colour.set("changed in the thread")
        return seen

    colour.set("blue")
    with ThreadPoolExecutor(1, thread_name_prefix="tools") as pool:
        result = await as_tool(look).call({}, context(pool=pool))
        assert result.content == "tools_0 blue"
    assert colour.get() == "blue"


async def test_coroutine_handlers_run_on_the_loop() -> None:
    async def look() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await call(as_tool(look))).content == "true"


async def test_a_pool_that_is_closed_is_an_error_result() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    result = await as_tool(lambda_free).call({}, context(pool=pool))
    assert result.outcome == "error" and "shutdown" in result.content


def lambda_free() -> int:
    return 1


async def test_invoke_sync_gives_the_finished_result() -> None:
    assert await as_tool(lambda_free).invoke_sync({}, context()) == ToolResult(content="1")


async def test_what_the_context_offers() -> None:
    ctx = context()

    @tool
    async def f(c: ToolContext[Any]) -> str:
        c.progress({"done": 1})
        value = await c.commit(lambda tx: f"{tx} committed")
        return f"{value} {c.idempotency_key} {c.attempt} {c.cancelled} {c.run_id}"

    assert (await f.call({}, ctx)).content == "tx committed s1:c1 1 False r1"
    assert ctx.scope.seen == [("c1", {"done": 1})]


@pytest.mark.parametrize(
    ("returns", "value", "wrong"),
    [
        ({"type": "string"}, "x", None),
        ({"type": "string"}, 3, '3 is not of type "string"'),
        (int, 3, None),
        (int, "3", '"3" is not of type "integer"'),
        (Money, Money(3), None),
        (Money, {"amount": "x"}, 'amount: "x" is not of type "integer"'),
        (list[Money], [Money(1)], None),
        ({"type": "string"}, Image(url="https://h/u"), None),
        ({"type": "string"}, ToolResult(content="x"), None),
        ({"type": "integer"}, object, 'is not of type "integer"'),
        ({"type": "array"}, {(1, 2): 3}, "cannot be written as JSON"),
        ({"type": "null"}, None, None),
    ],
)
async def test_an_answer_must_fit_returns(returns: Any, value: Any, wrong: str | None) -> None:
    result = await call(returning(value, returns=returns))
    assert result.is_error == (wrong is not None)
    if wrong is not None:
        assert "`returns` schema" in result.content
        assert re.search(wrong, result.content)


async def test_unvalidated_arguments_are_an_invalid_result_not_a_crash() -> None:
    def f(x: int, m: Money) -> int:
        return x

    made = as_tool(f)
    for arguments in ({"m": {}}, {"m": 3}, {"m": {"amount": 1, "x": 2}, "y": 1}, {}):
        prepared = made.prepare(arguments, "none")
        assert (await made.call(prepared.arguments, context())).is_error
    result = await made.call({"x": 1, "m": {}}, context())
    assert result.outcome == "invalid" and result.content.startswith("m: ")


async def test_many_synchronous_calls_at_once() -> None:
    def f(x: int) -> int:
        return x * x

    made = as_tool(f)
    with ThreadPoolExecutor(4) as pool:
        calls = [made.call({"x": n}, context(pool=pool)) for n in range(200)]
        results = await asyncio.gather(*calls)
    assert [result.content for result in results] == [str(n * n) for n in range(200)]
