"""Cassettes: recorded once, played for ever, and clear about what is not on them."""

from __future__ import annotations

import pytest

from windlass import errors
from windlass.events import TextDelta
from windlass.messages import Message, Thinking, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, silent
from windlass.testing import call, cassette, scripted
from windlass.testing.tape import NotOnTape

KEY = "sk-canary-0123456789abcdef"


def asking(*said: str | Message, tail=(), **frame) -> Request:
    messages = [Message("user", item) if isinstance(item, str) else item for item in said]
    return Request(messages, Frame(**frame), tail)


async def record(path, *replies, requests=None):
    tape = cassette(path, scripted(*replies), mode="record")
    return [await tape.respond(it, silent) for it in requests or [asking("hi")]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tapes" / "one.jsonl"


async def test_once_records_and_then_plays_without_the_model(path):
    model = scripted([Thinking("hm", opaque={"sig": "x"}), "Paris.", call("look", at=[1, None])])
    (asked,) = [asking("Capital of France?")]
    first = await cassette(path, model).respond(asked, silent)
    again = await cassette(path, scripted()).respond(asked, silent)
    assert again == first
    assert len(model.requests) == 1


async def test_replay_needs_no_model_and_knows_whose_words_it_speaks(path):
    await record(path, "hello")
    tape = cassette(path, mode="replay")
    assert (tape.provider, tape.name) == ("scripted", "scripted")
    assert (await tape.respond(asking("hi"), silent)).message.text == "hello"


async def test_record_starts_anew(path):
    await record(path, "old")
    await record(path, "new")
    reply = await cassette(path, mode="replay").respond(asking("hi"), silent)
    assert reply.message.text == "new"


async def test_the_same_request_gets_its_replies_in_order_each_once(path):
    await record(path, "one", "two", requests=[asking("hi"), asking("hi")])
    tape = cassette(path, mode="replay")
    assert [(await tape.respond(asking("hi"), silent)).message.text for _ in range(2)] == [
        "one",
        "two",
    ]
    with pytest.raises(NotOnTape, match="2 times, and it was asked once more"):
        await tape.respond(asking("hi"), silent)


async def test_the_ids_of_another_run_are_no_difference(path):
    def turn(id_: str) -> Request:
        return asking(
            "go",
            Message("assistant", (ToolCall(id_, "a", {}),)),
            Message("tool", (ToolResult(id_, "3"),)),
        )

    await record(path, "done", requests=[turn("call_81f")])
    tape = cassette(path, mode="replay")
    assert (await tape.respond(turn("call_2c0"), silent)).message.text == "done"
    crossed = asking(
        "go",
        Message("assistant", (ToolCall("x", "a", {}),)),
        Message("tool", (ToolResult("y", "3"),)),
    )
    with pytest.raises(NotOnTape):
        await cassette(path, mode="replay").respond(crossed, silent)


async def test_streaming_or_not_is_no_difference(path):
    await record(path, "two words", requests=[asking("hi", settings=Settings(stream=False))])
    seen = []
    await cassette(path, mode="replay").respond(asking("hi"), seen.append)
    assert seen == [TextDelta("two"), TextDelta(" words")]


async def test_errors_are_on_tape_too(path):
    failing = scripted(errors.RateLimited("slow down", retry_after=4.0, http_status=429))
    with pytest.raises(errors.RateLimited):
        await cassette(path, failing).respond(asking("hi"), silent)
    with pytest.raises(errors.RateLimited, match="slow down") as caught:
        await cassette(path, mode="replay").respond(asking("hi"), silent)
    assert (caught.value.retry_after, caught.value.http_status) == (4.0, 429)


TOOL = ToolSpec("add", "Add.", {"type": "object"})


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            asking("hello", system="be kind", tools=(TOOL,)),
            r"message 1 differs: user: 'hi' on tape",
        ),
        (asking("hi", "there", system="be kind", tools=(TOOL,)), r"message 2 .* none on tape"),
        (asking("hi", system="be rude", tools=(TOOL,)), "the system prompt"),
        (asking("hi", system="be kind"), "the tools differ: add"),
        (
            asking("hi", system="be kind", tools=(TOOL,), settings=Settings(temperature=1.0)),
            "the settings differ: .*temperature",
        ),
        (asking("hi", system="be kind", tools=(TOOL,), tail=(Message("user", "psst"),)), "psst"),
    ],
)
async def test_a_request_that_is_not_on_tape_says_what_differs(path, asked, says):
    await record(path, "x", requests=[asking("hi", system="be kind", tools=(TOOL,))])
    with pytest.raises(NotOnTape, match=says):
        await cassette(path, mode="replay").respond(asked, silent)


async def test_two_models_share_a_tape(path):
    tape = cassette(path, scripted("from one", name="one"))
    await tape.respond(asking("hi"), silent)
    await tape.wrap(scripted("from two", name="two")).respond(asking("hi"), silent)
    played = cassette(path, scripted(name="one"), mode="replay")
    other = played.wrap(scripted(name="two"))
    assert (await other.respond(asking("hi"), silent)).message.text == "from two"
    assert (await played.respond(asking("hi"), silent)).message.text == "from one"
    with pytest.raises(NotOnTape, match="recorded with scripted:"):
        await played.wrap(scripted(name="three")).respond(asking("hi"), silent)


async def test_no_secret_reaches_the_tape(path):
    model = scripted(f"your key is {KEY}", errors.AuthFailed(f"bad key {KEY}"))
    model.secrets = (KEY,)
    extra = Settings(extra={"api_key": KEY})
    asked = asking(f"my key is {KEY}", system=f"use {KEY}", settings=extra)
    tape = cassette(path, model)
    reply = await tape.respond(asked, silent)
    with pytest.raises(errors.AuthFailed):
        await tape.respond(asked, silent)
    assert KEY in reply.message.text, "the program itself hears what was said"
    assert KEY not in path.read_text()
    again = cassette(path, model, mode="replay")
    assert "[redacted]" in (await again.respond(asked, silent)).message.text


async def test_a_long_conversation_is_not_written_again_with_every_turn(path):
    said = ["a long message " * 50]
    requests = []
    for number in range(20):
        requests.append(asking(*said))
        said.append(f"{number} " + "word " * 200)
    await record(path, *["ok"] * 20, requests=requests)
    assert path.stat().st_size < 20_000


def test_impossible_cassettes_are_refused(tmp_path):
    with pytest.raises(errors.ConfigError, match="no tape"):
        cassette(tmp_path / "none.jsonl", mode="replay")
    with pytest.raises(errors.ConfigError, match="needs a model"):
        cassette(tmp_path / "none.jsonl")
    with pytest.raises(errors.ConfigError, match="did you mean 'replay'"):
        cassette(tmp_path / "none.jsonl", mode="reply")  # type: ignore[arg-type]
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"line": "message"\n')
    with pytest.raises(errors.ConfigError, match="broken.jsonl, line 1"):
        cassette(broken, mode="replay")
    newer = tmp_path / "newer.jsonl"
    newer.write_text(
        '{"line":"reply","model":"a:b","system":"","tools":{},"settings":{},"messages":[],"format":99}\n'
    )
    with pytest.raises(errors.ConfigError, match="newer"):
        cassette(newer, mode="replay")
