"""A disk that fails at a commit, tools that wait in their threads, and replies with several choices."""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.events import TextDelta, ToolResulted
from windlass.models.base import Request, silent
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.completions import TextDecoder
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import call, scripted

# --------------------------------------------------------------------------- a disk that fails


def broken(code: int, at: Callable[[], bool]) -> Callable[[str], None]:
    """At a commit, the error that SQLite has for it, as long as `at` says so."""

    def reached(point: str) -> None:
        if point == "journal.before_commit" and at():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = code
            raise error

    return reached


PAYING: list[str] = []


def paying(to: str) -> Callable[[Any], str]:
    def body(tx: Any) -> str:
        PAYING.append(to)
        tx.execute("CREATE TABLE IF NOT EXISTS paid (who TEXT)")
        tx.execute("INSERT INTO paid VALUES (?)", (to,))
        return "paid"

    return body


@w.tool(transactional=True)
async def pay(ctx: w.ToolContext[None], to: str) -> str:
    """Pay somebody."""
    return await ctx.commit(paying(to))


@w.tool(transactional=True)
async def pay_whatever_happens(ctx: w.ToolContext[None], to: str) -> str:
    """Pay somebody, and say so in any case."""
    try:
        return await ctx.commit(paying(to))
    except w.StoreError:
        return "paid"


@pytest.mark.parametrize("tool", [pay, pay_whatever_happens])
@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY]
)
async def test_a_commit_that_the_disk_refuses_ends_the_run(tmp_path, code, tool):
    model = scripted(call(tool.name, to="bob"), "never said")
    store = SqliteStore(tmp_path / "shop.db")
    agent = w.Agent(model, tools=[tool], store=store)
    PAYING.clear()

    def once() -> bool:  # the very commit fails, and the disk is well again
        return bool(PAYING) and not PAYING.clear()

    with seams.watch_points(broken(code, once)):
        out = await agent.run("go", session_id="s")
    assert out.status == "failed" and isinstance(out.exception, w.StoreError)
    assert out.error is not None and out.error["category"] == "store"
    assert len(model.requests) == 1  # the model was not told, and not asked again
    told = [e.result.text for e in await store.read("s") if isinstance(e, ToolResulted)]
    assert all(str(tmp_path) not in text for text in told)
    paid = "SELECT count(*) FROM sqlite_master WHERE name = 'paid'"
    assert await store.consult(lambda tx: tx.execute(paid).fetchone()[0]) == 0
    again = await w.Agent(scripted(call("pay", to="bob"), "done"), tools=[pay], store=store).run(
        "again", session_id="s"
    )
    assert again.status == "done"  # the disk is well again
    assert await store.consult(lambda tx: tx.execute("SELECT * FROM paid").fetchall()) == [("bob",)]
    await store.aclose()


async def test_a_bodys_own_mistake_is_the_tools_error(tmp_path):
    @w.tool(transactional=True)
    async def slip(ctx: w.ToolContext[None]) -> str:
        """Write where there is nothing."""
        return await ctx.commit(lambda tx: tx.execute("INSERT INTO nowhere VALUES (1)"))

    model = scripted(call("slip"), "I see.")
    async with w.Runtime(tmp_path / "s.db"):
        out = await w.Agent(model, tools=[slip]).run("go")
    assert (out.status, out.output) == ("done", "I see.")
    assert "nowhere" in str(out.tool_calls[0].result)


async def test_a_file_that_a_tool_cannot_read_is_no_affair_of_the_store():
    @w.tool
    async def read() -> str:
        """Read it."""
        raise OSError(errno.EIO, "I/O error")

    out = await w.agent_loop("go", model=scripted(call("read"), "I see."), tools=[read])
    assert out.status == "done"


# --------------------------------------------------------------------------- threads that wait


def nested(depth: int) -> w.Tool:
    """A tool that waits in its thread for an agent whose tool does the same, so many times."""

    @w.tool
    def dive(n: int) -> str:
        """Go deeper."""
        if n == 0:
            return "bottom"
        agent = w.Agent(scripted(call("dive", n=n - 1), "up"), tools=[dive])
        out = agent.run_sync("go")
        return str(out.tool_calls[0].result)

    return dive


async def test_agents_in_tools_in_agents_never_wait_for_a_thread():
    """Deeper than there are threads."""
    dive = nested(40)
    out = await asyncio.wait_for(
        w.agent_loop("go", model=scripted(call("dive", n=40), "up"), tools=[dive]), 120
    )
    assert out.status == "done"
    [result] = [e.result.text for e in out.entries if isinstance(e, ToolResulted)]
    assert result == "bottom"


async def test_many_at_once_never_wait_for_a_thread():
    """More tools at work than there are threads, each of which waits for a tool of its own."""

    @w.tool
    def leaf(n: int) -> str:
        """Answer."""
        return f"leaf {n}"

    @w.tool
    def branch(n: int) -> str:
        """Ask an agent."""
        out = w.Agent(scripted(call("leaf", n=n), "x"), tools=[leaf]).run_sync("go")
        return str(out.tool_calls[0].result)

    calls = [call("branch", n=n) for n in range(60)]
    agent = w.Agent(scripted(calls, "done"), tools=[branch], max_concurrent_tools=60)
    out = await asyncio.wait_for(agent.run("go"), 120)
    assert [c.result for c in out.tool_calls] == [f"leaf {n}" for n in range(60)]


async def test_a_loop_of_its_own_in_a_tool_counts_as_well():
    @w.tool
    def leaf() -> str:
        """Answer."""
        return "leaf"

    @w.tool
    def branch() -> str:
        """Ask an agent on a loop of its own."""
        agent = w.Agent(scripted(call("leaf"), "x"), tools=[leaf])
        return str(asyncio.run(agent.run("go")).tool_calls[0].result)

    calls = [call("branch") for _ in range(40)]
    agent = w.Agent(scripted(calls, "done"), tools=[branch], max_concurrent_tools=40)
    out = await asyncio.wait_for(agent.run("go"), 120)
    assert {c.result for c in out.tool_calls} == {"leaf"}


# --------------------------------------------------------------------------- several choices


MODEL = OpenAIChat("m", api_key="k", base_url="http://127.0.0.1:1/v1")


def decoded(decoder: Any, chunks: list[dict[str, Any]]) -> Any:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    decoder.feed(body.encode())
    return decoder.finish()


def piece(index: int | None, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"delta": delta, "finish_reason": finish}
    return choice if index is None else {"index": index, **choice}


def asks(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    return {"tool_calls": [{"index": 0, "id": f"id-{name}", "function": function}]}


def test_of_several_choices_the_first_is_the_answer():
    shown: list[Any] = []
    response = decoded(
        MODEL.decoder(Request([]), shown.append),
        [
            {"choices": [piece(0, content="Yes")]},
            {"choices": [piece(1, content="No")]},
            {"choices": [piece(1, content=" and "), piece(0, content=", well")]},
            {"choices": [piece(1, **asks("wrong"))]},
            {"choices": [piece(1, "length")]},
            {"choices": [piece(0, **asks("right"))]},
            {"choices": [piece(0, "tool_calls")]},
        ],
    )
    assert response.message.text == "Yes, well"
    assert [one.name for one in response.message.tool_calls] == ["right"]
    assert response.stop_reason == "tool_use"
    assert "".join(e.text for e in shown if isinstance(e, TextDelta)) == "Yes, well"


@pytest.mark.parametrize("index", [0, 1, None])
def test_one_choice_is_read_whatever_its_number(index):
    response = decoded(
        MODEL.decoder(Request([]), silent),
        [
            {"choices": [piece(index, content="Yes")]},
            {"choices": []},
            {"choices": [piece(index, "stop", content=".")]},
        ],
    )
    assert (response.message.text, response.stop_reason) == ("Yes.", "end_turn")


def test_a_reply_whose_first_choice_never_ends_is_broken():
    decoder = MODEL.decoder(Request([]), silent)
    for chunk in ({"choices": [piece(0, content="Y")]}, {"choices": [piece(1, "stop")]}):
        decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
    with pytest.raises(w.StreamBroken):
        decoder.finish()


def test_text_that_goes_on_is_that_of_the_first_choice():
    plain = MODEL.decoder(Request([]), silent)
    response = decoded(
        TextDecoder(plain.source, plain.origin, {}, silent),
        [
            {"choices": [{"index": 0, "text": "one"}]},
            {"choices": [{"index": 1, "text": "two"}]},
            {"choices": [{"index": 1, "text": "", "finish_reason": "length"}]},
            {"choices": [{"index": 0, "text": "!", "finish_reason": "stop"}]},
        ],
    )
    assert (response.message.text, response.stop_reason) == ("one!", "end_turn")
