"""Ollama's own wire: what goes out, what comes back by the line or whole, and what is broken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as w
from windlass.errors import (
    BadReply,
    BadRequest,
    ContextOverflow,
    ModelError,
    ServerError,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import (
    Message,
    Origin,
    Text,
    Thinking,
    ToolSpec,
)
from windlass.models.base import Frame, Request, Response, Settings
from windlass.models.transport.errors import from_http
from windlass.models.transport.ndjson import LineDecoder
from windlass.models.wires.ollama.model import OllamaChat
from windlass.testing.providers import (
    FAULTS,
    FakeOllama,
    Reply,
    conversation,
)
from windlass.usage import Usage

MODEL = OllamaChat("qwen3")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
ODD = ToolSpec("my.odd tool", "Odd.", {})


def line(message: dict[str, Any] | None = None, **more: Any) -> bytes:
    shell = {"model": "qwen3", "created_at": "2026-01-02T03:04:05Z", "done": False}
    said = {"message": {"role": "assistant", "content": "", **message}} if message else {}
    return json.dumps({**shell, **said, **more}).encode() + b"\n"


END = line({}, done=True, done_reason="stop", prompt_eval_count=7, eval_count=3)


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]}


def decode(*chunks: bytes, stream: bool = True, tools: tuple[ToolSpec, ...] = ()) -> Any:
    told: list[Any] = []
    frame = Frame(tools=tools, settings=Settings(stream=stream))
    decoder = MODEL.decoder(Request([], frame), told.append)
    for chunk in chunks:
        decoder.feed(chunk)
    return decoder.finish(), told


def body(*messages: Message, tail: tuple[Message, ...] = (), **frame: Any) -> Any:
    settings = Settings(**frame.pop("settings", {}))
    return json.loads(
        b"".join(MODEL.encode(Request(messages, Frame(settings=settings, **frame), tail)))
    )


def shape(reply: Response) -> Any:
    calls = [(c.name, c.arguments, c.raw) for c in reply.message.tool_calls]
    return reply.message.text, calls, reply.usage, reply.stop_reason, reply.model


# --------------------------------------------------------------------------- replies


STREAM = (
    line({"thinking": "Zwei – "})
    + line({"thinking": "also."})
    + line({"content": "Ich "})
    + line({"content": "rechne 🧮."})
    + line(call("add", {"a": 1, "b": [None, "ü"]}))
    + line(call("add", {"a": 2}, id="call_7"))
    + END
)


def test_a_stream_of_lines() -> None:
    reply, told = decode(STREAM)
    thought, text, first, second = reply.message.content
    assert thought == Thinking("Zwei – also.", None, Origin("ollama", "qwen3"))
    assert text == Text("Ich rechne 🧮.")
    assert (first.name, first.arguments) == ("add", {"a": 1, "b": [None, "ü"]})
    assert first.id and first.id != second.id and second.id == "call_7"
    assert reply.stop_reason == "tool_use"  # though done_reason is stop
    assert reply.usage == Usage(7, 3)
    kinds = [type(event) for event in told]
    assert kinds == [ThinkingDelta] * 2 + [TextDelta] * 2 + [ToolCallReady] * 2
    assert [event.call for event in told[-2:]] == [first, second]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split_reads_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert shape(decode(*chunks)[0]) == shape(decode(STREAM)[0])


def test_cut_anywhere_is_an_error_or_the_whole() -> None:
    whole = shape(decode(STREAM)[0])
    for end in range(len(STREAM)):
        try:
            reply, _ = decode(STREAM[:end])
        except (StreamBroken, BadReply):
            assert end < len(STREAM) - 1
        else:
            assert end == len(STREAM) - 1  # all but the last line break
            assert shape(reply) == whole


def test_a_stream_that_ends_between_lines_is_broken() -> None:
    for lines in range(1, STREAM.count(b"\n")):
        with pytest.raises(StreamBroken):
            decode(b"".join(STREAM.splitlines(keepends=True)[:lines]))


def test_a_plain_reply_and_one_that_streams_unasked() -> None:
    message = {"thinking": "So.", "content": "Hi.", **call("add", {"a": 1})}
    body = line(message, done=True, done_reason="stop", prompt_eval_count=7, eval_count=3)
    for chunks in ([body.strip()], [body], [body[:40], b"", body[40:]]):
        reply, told = decode(*chunks, stream=False)
        assert shape(reply) == ("Hi.", [("add", {"a": 1}, None)], Usage(7, 3), "tool_use", "qwen3")
        assert [type(event) for event in told] == [ThinkingDelta, TextDelta, ToolCallReady]
    pretty = json.dumps(json.loads(body), indent=1).encode()
    assert decode(pretty, stream=False)[0].message.text == "Hi."
    assert shape(decode(STREAM, stream=False)[0]) == shape(decode(STREAM)[0])
    assert decode(body, stream=True)[0].message.text == "Hi."
    with pytest.raises(BadReply):
        decode(body[: len(body) // 2], stream=False)
    with pytest.raises(BadReply, match="not done"):
        decode(line({"content": "half"}), stream=False)


@pytest.mark.parametrize(
    ("given", "arguments", "raw"),
    [
        ({}, {}, None),
        (None, {}, None),
        ("", {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ('"{\\"a\\": 1}"', {"a": 1}, None),
        ('{"a": ', {}, '{"a": '),
        ([1], {}, "[1]"),
    ],
)
def test_arguments_in_any_spelling(given: Any, arguments: Any, raw: str | None) -> None:
    reply, told = decode(line(call("add", given)) + END)
    [made] = reply.message.tool_calls
    assert (made.arguments, made.raw) == (arguments, raw)
    assert len([t for t in told if isinstance(t, ToolCallReady)]) == (raw is None)


def test_names_come_back_as_ours() -> None:
    sent = json.loads(b"".join(MODEL.encode(Request([], Frame(tools=(ODD,))))))
    name = sent["tools"][0]["function"]["name"]
    assert name != ODD.name
    reply, _ = decode(line(call(name, {})) + END, tools=(ODD,))
    assert reply.message.tool_calls[0].name == ODD.name


@pytest.mark.parametrize(
    ("last", "stop", "usage"),
    [
        ({"done_reason": "length", "eval_count": 9}, "max_tokens", Usage(0, 9)),  # prompt cached
        ({"done_reason": "stop"}, "end_turn", Usage()),
        ({}, "end_turn", Usage()),
        ({"done_reason": "load"}, "unknown", Usage()),
        ({"done_reason": 7, "prompt_eval_count": "x", "eval_count": -1}, "end_turn", Usage()),
    ],
)
def test_how_it_ends(last: dict[str, Any], stop: str, usage: Usage) -> None:
    reply, _ = decode(line({"content": "x"}) + line({}, done=True, **last))
    assert (reply.stop_reason, reply.usage) == (stop, usage)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("an error was encountered while running the model: CUDA error", ServerError),
        ("the input length exceeds the context length", ContextOverflow),
    ],
)
def test_an_error_line_in_the_middle(words: str, kind: type[ModelError]) -> None:
    with pytest.raises(kind, match=words):
        decode(line({"content": "x"}) + json.dumps({"error": words}).encode() + b"\n")
    with pytest.raises(kind, match=words):
        decode(json.dumps({"error": words}).encode(), stream=False)


def test_an_error_by_status() -> None:
    source = MODEL._source()
    missing = from_http(404, {}, b'{"error":"model \'x\' not found"}', source)
    assert type(missing) is BadRequest and "not found" in str(missing)
    long = b'{"error":"the input length exceeds the context length"}'
    assert type(from_http(400, {}, long, source)) is ContextOverflow


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"<html>no</html>", b"{", b"{}x\n", b"\n\n"])
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_no_reply(raw: bytes, stream: bool) -> None:
    with pytest.raises((BadReply, StreamBroken)):
        decode(raw, stream=stream)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON, st.sampled_from(["message", "content", "tool_calls", "function", "done", "error"]))
def test_any_value_anywhere_is_a_reply_or_an_error(value: Any, where: str) -> None:
    body: dict[str, Any] = {"message": {"content": "x"}, "done": True}
    if where in ("message", "done", "error"):
        body[where] = value
    elif where == "function":
        body["message"]["tool_calls"] = [{"function": value}]
    else:
        body["message"][where] = value
    try:
        reply, _ = decode(json.dumps(body).encode() + b"\n" + END)
    except ModelError:
        return
    assert isinstance(reply, Response)


def test_blank_lines_are_signs_of_life_and_no_progress() -> None:
    decoder = MODEL.decoder(Request([]), lambda _event: None)
    assert decoder.feed(b"\n\n") is False
    assert decoder.feed(line({"content": "x"})) is True
    assert decoder.feed(b"\r\n\n") is False


def test_a_line_without_end_is_given_up() -> None:
    lines = LineDecoder(limit=100)
    with pytest.raises(BadReply, match="100 bytes"):
        for _ in range(20):
            lines.feed(b"x" * 10)


def test_a_turn_goes_back_as_it_came_and_foreign_thoughts_do_not() -> None:
    reply, _ = decode(STREAM)
    [sent] = body(reply.message)["messages"]
    first, second = reply.message.tool_calls
    assert sent == {
        "role": "assistant",
        "content": "Ich rechne 🧮.",
        "thinking": "Zwei – also.",
        "tool_calls": [
            {"id": first.id, "function": {"name": "add", "arguments": {"a": 1, "b": [None, "ü"]}}},
            {"id": "call_7", "function": {"name": "add", "arguments": {"a": 2}}},
        ],
    }
    foreign = Thinking("secret", {"signature": "s"}, Origin("anthropic", "claude"))
    [sent] = body(Message("assistant", (foreign, Text("hi"))))["messages"]
    assert sent == {"role": "assistant", "content": "hi"}
    assert body(Message("assistant", (foreign,)))["messages"] == []


# --------------------------------------------------------------------------- together


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        ("404", "`ollama pull qwen3`"),
        ("400_too_long", "num_ctx"),
        ("drop", "`ollama serve`"),
        ("400", "that is not how it goes"),
    ],
)
async def test_what_only_its_owner_can_mend_is_said(fault: str, hint: str) -> None:
    async with FakeOllama("x", faults=FAULTS[fault]) as server:
        model = OllamaChat("qwen3", base_url=server.url)
        with pytest.raises(ModelError) as caught:
            await model.respond(Request([Message("user", "q")]), lambda _event: None)
    assert hint in str(caught.value)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_agent_with_two_tools(stream: bool) -> None:
    @w.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @w.tool
    async def shout(text: str) -> str:
        """Shout."""
        raise RuntimeError("hoarse")

    script = conversation(
        Reply("Ich rechne.", "Hm.", [("add", {"a": 1, "b": 2}), ("shout", {"text": "ü"})]),
        Reply(tool_calls=[("add", {"a": 3, "b": 4})]),
        "7",
    )
    async with FakeOllama(script) as server:
        agent = w.Agent(OllamaChat("qwen3", base_url=server.url), tools=[add, shout], stream=stream)
        out = await agent.run("go")
    assert (out.status, out.final_text) == ("done", "7")
    assert not server.refused
    told = server.requests[1].json["messages"]
    assert told[-3]["thinking"] == "Hm." and len(told[-3]["tool_calls"]) == 2
    assert [(m["tool_name"], m["content"][:5]) for m in told[-2:]] == [
        ("add", "3"),
        ("shout", "Error"),
    ]
    assert [m["tool_call_id"] for m in told[-2:]] == [c["id"] for c in told[-3]["tool_calls"]]


async def test_the_vendors_client_reads_the_fake_as_we_do() -> None:
    ollama = pytest.importorskip("ollama")
    script = Reply("Grüße", "Hm.", [("add", {"a": 1})])
    async with FakeOllama(script) as server:
        client = ollama.AsyncClient(host=server.url)
        asked = {"model": "qwen3", "messages": [{"role": "user", "content": "q"}]}
        whole = await client.chat(**asked)
        parts = [part async for part in await client.chat(**asked, stream=True)]
        await client._client.aclose()
        model = OllamaChat("qwen3", base_url=server.url)
        ours = await model.respond(Request([Message("user", "q")]), lambda _event: None)
    [theirs] = whole.message.tool_calls
    [call] = ours.message.tool_calls
    assert (theirs.function.name, theirs.function.arguments) == (call.name, call.arguments)
    assert whole.message.content == ours.message.text
    assert "".join(part.message.content for part in parts) == ours.message.text
    assert parts[-1].eval_count == ours.usage.output_tokens


# --------------------------------------------------------------------------- recorded exchanges

FOLDER = Path(os.environ.get("WINDLASS_WIRE_DIR", ""))


@pytest.mark.skipif("WINDLASS_WIRE_DIR" not in os.environ, reason="WINDLASS_WIRE_DIR is not set")
def test_recorded_exchanges() -> None:
    index = json.loads((FOLDER / "index.json").read_text())["exchanges"]
    entries = [entry for entry in index if entry["endpoint"] == "api/chat"]
    assert entries
    for entry in entries:
        reply = json.loads((FOLDER / entry["file"]).read_text())["response"]
        streamed = reply["body_kind"] == "text"
        raw = reply["body"].encode() if streamed else json.dumps(reply["body"]).encode()
        whole, told = decode(raw, stream=streamed)
        assert whole.message.text and whole.usage.output_tokens > 0
        assert [c.name for c in whole.message.tool_calls] == entry["expected"]["tool_calls"] == []
        assert entry["expected"]["finish"] == "stop" and whole.stop_reason == "end_turn"
        assert "".join(t.text for t in told if isinstance(t, TextDelta)) == whole.message.text
        again, _ = decode(*[raw[i : i + 1] for i in range(len(raw))], stream=streamed)
        assert shape(again) == shape(whole)
        for end in [i for i in range(len(raw) - 1) if raw[i : i + 1] == b"\n"] or [len(raw) // 2]:
            for cut in (end, end + 1, end - 7):
                with pytest.raises((StreamBroken, BadReply)):
                    decode(raw[:cut], stream=streamed)
