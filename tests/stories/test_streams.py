"""Reading a stream in more than one go, and using it wrongly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add
from windlass.events import StreamRestarted
from windlass.testing import call, scripted


async def test_what_one_reader_leaves_is_there_for_the_next():
    model = scripted("one two three four", stream=True)
    async with w.Agent(model).stream("go") as run:
        out = await run.result()  # so that all of it is there at once
        seen: list[str] = []
        async for event in run:
            if isinstance(event, w.TextDelta):
                seen.append(event.text)
                break
        async for piece in run.text():
            seen.append(piece)
    assert "".join(seen) == out.output == "one two three four"


async def test_a_reply_whose_pieces_were_seen_is_not_told_again_whole():
    model = scripted("hi", stream=True)
    async with w.Agent(model).stream("go") as run:
        async for event in run:
            if isinstance(event, w.TextDelta):
                break
        assert [piece async for piece in run.text()] == []


async def test_only_the_reply_that_was_not_streamed_comes_whole():
    first = ["Look.", call("add", a=1, b=2)]
    async with w.Agent(scripted(first, "3"), tools=[add]).stream("go") as run:
        assert [piece async for piece in run.text()] == ["Look.", "3"]


async def test_a_stream_that_was_not_entered_says_how_instead_of_waiting_for_ever():
    run = w.Agent(scripted("hi")).stream("go")
    for wrong in (anext(aiter(run)), anext(run.text()), run.result(), run.steer("now")):
        with pytest.raises(RuntimeError, match="async with"):
            await asyncio.wait_for(wrong, 1)
    with pytest.raises(RuntimeError, match="async with"):
        _ = run.session_id


async def test_a_stream_is_one_run():
    run = w.Agent(scripted("hi", "again")).stream("go")
    async with run:
        await run.result()
    with pytest.raises(RuntimeError, match="again"):
        async with run:
            pass


async def test_a_second_reader_at_the_same_time_is_refused():
    begun = asyncio.Event()

    async def reply(_request: w.Request) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    async with w.Agent(scripted(reply)).stream("go") as run:
        first = asyncio.ensure_future(anext(run.text()))
        await begun.wait()
        with pytest.raises(RuntimeError, match="one reader"):
            await asyncio.wait_for(anext(run.text()), 1)
        first.cancel()
        await asyncio.wait({first})


class Restarting(w.Model):
    """Says these pieces, begins again, and then says the whole."""

    def __init__(self, *before: str) -> None:
        self.before = before

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        for piece in self.before:
            emit(w.TextDelta(piece))
        emit(StreamRestarted("network: cut"))
        emit(w.TextDelta("hello"))
        return w.Response(w.Message("assistant", "hello"))


async def test_pieces_of_one_call_that_were_handed_out_are_not_followed_by_their_repetition():
    heard: list[str] = []
    with pytest.raises(w.StreamBroken, match="network: cut"):
        async for chunk in w.llm_stream("go", model=Restarting("hel")):
            heard.append(chunk.text)
    assert heard == ["hel"]


async def test_a_call_that_begins_again_before_its_first_piece_is_none_the_worse():
    chunks = [str(chunk) async for chunk in w.llm_stream("go", model=Restarting())]
    assert "".join(chunks) == "hello"
