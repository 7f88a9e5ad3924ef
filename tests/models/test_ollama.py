"""Ollama's own wire: what goes out, what comes back by the line or whole, and what is broken."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as w
from windlass.errors import (
    BadReply,
    BadRequest,
    ConfigError,
    ContextOverflow,
    ModelError,
    ServerError,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import (
    Document,
    Image,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Completion, Frame, Request, Response, Settings
from windlass.models.capabilities import Capabilities
from windlass.models.failures import from_http
from windlass.models.ndjson import LineDecoder
from windlass.models.view import Strand
from windlass.models.wires.ollama import OllamaChat
from windlass.testing.fakes import FAULTS, FakeOllama, Reply, conversation
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


# --------------------------------------------------------------------------- requests


def body(*messages: Message, tail: tuple[Message, ...] = (), **frame: Any) -> Any:
    settings = Settings(**frame.pop("settings", {}))
    return json.loads(
        b"".join(MODEL.encode(Request(messages, Frame(settings=settings, **frame), tail)))
    )


def test_every_setting_has_its_place() -> None:
    sent = body(
        Message("user", "q"),
        system="Be brief.",
        tools=(ADD,),
        settings={
            "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop": ("x",),
            "seed": 4, "frequency_penalty": 0.1, "presence_penalty": 0.2, "thinking": True,
            "parallel_tool_calls": False, "stream": False,
            "extra": {"options": {"num_ctx": 8192}, "keep_alive": "10m", "format": "json"},
        },
    )  # fmt: skip
    assert sent.pop("options") == {
        "num_predict": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop": ["x"], "seed": 4,
        "frequency_penalty": 0.1, "presence_penalty": 0.2, "num_ctx": 8192,
    }  # fmt: skip
    assert sent.pop("messages")[0] == {"role": "system", "content": "Be brief."}
    function = {"name": "add", "description": "Add.", "parameters": ADD.parameters}
    assert sent.pop("tools") == [{"type": "function", "function": function}]
    assert sent == {
        "model": "qwen3", "stream": False, "truncate": False, "shift": False, "think": True,
        "keep_alive": "10m", "format": "json",
    }  # fmt: skip
    assert "options" not in body(Message("user", "q"))


@pytest.mark.parametrize(
    ("asked", "think"),
    [
        (None, None),
        (True, True),
        (False, False),
        ({"effort": "high"}, True),  # its row has no levels
        ({"effort": "none"}, False),
        ({"effort": "minimal"}, True),
        ({"budget_tokens": 2000}, True),
        ({"mode": "disabled"}, False),
        ({"type": "disabled"}, False),
    ],
)
def test_thinking(asked: Any, think: Any) -> None:
    assert body(settings={"thinking": asked}).get("think") == think


LEVELS = Capabilities(known=True, thinking=True, efforts=("low", "medium", "high"))


@pytest.mark.parametrize(
    ("row", "asked", "think"),
    [
        (Capabilities(), {"effort": "high"}, "high"),
        (Capabilities(), {"effort": "minimal"}, True),
        (LEVELS, {"effort": "high"}, "high"),
        (LEVELS, {"effort": "xhigh"}, True),
        (LEVELS, False, False),
        (msgspec.structs.replace(LEVELS, always_thinks=True), False, "low"),
        (Capabilities(known=True), True, None),  # it would be refused
        (Capabilities(known=True, thinking=True, lowering="no_think"), False, None),
    ],
)
def test_thinking_by_the_row(row: Capabilities, asked: Any, think: Any) -> None:
    assert json.loads(sent_by(row, thinking=asked)).get("think") == think


def sent_by(row: Capabilities, *messages: Message, **settings: Any) -> bytes:
    model = OllamaChat("m")
    model.caps = row
    return b"".join(model.encode(Request(messages, Frame(settings=Settings(**settings)))))


SILENT = Capabilities(known=True, thinking=True, lowering="no_think")


def test_a_model_without_a_switch_is_told_in_words_not_to_think() -> None:
    asked = (
        Message("system", "Be brief."),
        Message("user", "One?"),
        Message("assistant", "1"),
        Message("user", (Text("Two?"), Image(data="aGk="))),
        Message("user", (Image(data="aGk="),)),
    )
    told = json.loads(sent_by(SILENT, *asked, thinking={"mode": "disabled"}))["messages"]
    assert [m["content"] for m in told] == [
        "Be brief.", "One? /no_think", "1", "Two? /no_think", "/no_think",
    ]  # fmt: skip
    for row, thinking in ((SILENT, True), (SILENT, None), (LEVELS, False)):
        assert b"/no_think" not in sent_by(row, *asked, thinking=thinking)
    # who said it himself is not told again
    already = sent_by(SILENT, Message("user", "Three? /no_think"), thinking=False)
    assert already.count(b"/no_think") == 1


def test_the_words_do_not_move_what_was_sent_before() -> None:
    model = OllamaChat("m")
    model.caps = SILENT
    strand, before = Strand(), b""
    frame = Frame(settings=Settings(thinking=False))
    for turn in range(100):
        strand.items.append(Message("user", f"q{turn}"))
        sent = b"".join(model.encode(Request(strand.snapshot(), frame)))
        assert sent.startswith(before.removesuffix(b"]}"))
        assert json.loads(sent)["messages"][-1]["content"] == f"q{turn} /no_think"
        strand.items.append(Message("assistant", "a"))
        before = sent
    # the same strand, asked to think again, knows nothing of it
    assert b"/no_think" not in b"".join(model.encode(Request(strand.snapshot(), Frame())))


def test_options_by_their_bare_names() -> None:
    extra = {"num_ctx": 32768, "keep_alive": "30m", "options": {"min_p": 0.1}, "stream": True,
             "messages": "never", "a_field_of_tomorrow": 1}  # fmt: skip
    sent = body(Message("user", "q"), settings={"extra": extra, "temperature": 1, "stream": False})
    assert sent["options"] == {"temperature": 1, "num_ctx": 32768, "min_p": 0.1}
    assert (sent["keep_alive"], sent["stream"], sent["a_field_of_tomorrow"]) == ("30m", False, 1)
    assert sent["messages"] == [{"role": "user", "content": "q"}]
    with pytest.raises(ConfigError, match="'num_ctxt'; did you mean 'num_ctx'"):
        body(settings={"extra": {"num_ctxt": 1}})


def test_an_answer_of_a_given_form() -> None:
    form = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert body(settings={"schema": form})["format"] == form
    assert body(settings={"response_format": "json"})["format"] == "json"
    assert body(settings={"schema": form, "extra": {"format": "json"}})["format"] == "json"
    assert "format" not in body()


# --------------------------------------------------------------------------- texts to go on with

GOES_ON = Capabilities(known=True, completes="generate")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_text_goes_on_and_a_gap_is_filled(stream: bool) -> None:
    told: list[Any] = []
    settings = Settings(stream=stream, max_tokens=9, extra={"num_ctx": 4096})
    async with FakeOllama(Reply("price * amount – ü")) as server:
        model = OllamaChat("codellama", base_url=f"{server.url}/v1")
        model.caps = GOES_ON
        gap = Completion("total = ", ";", "Only code.", settings)
        filled = await model.complete(gap, told.append)
        on = await model.complete(Completion("Once ", None, "Tell.", settings), told.append)
    assert filled is not None and on is not None and not server.refused
    assert filled.text == on.text == "price * amount – ü"
    assert (filled.stop_reason, filled.model) == ("end_turn", "codellama")
    assert filled.usage.output_tokens > 0 and filled.usage.gpu_ms == 3.0
    assert "".join(t.text for t in told) == filled.text * 2
    first, second = (asked.json for asked in server.requests)
    assert {asked.path for asked in server.requests} == {"/api/generate"}
    asked = {"model": "codellama", "stream": stream, "truncate": False, "shift": False,
             "options": {"num_predict": 9, "num_ctx": 4096}}  # fmt: skip
    assert first == {**asked, "prompt": "total = ", "suffix": ";", "system": "Only code."}
    assert second == {**asked, "prompt": "Tell.\n\nOnce ", "raw": True}


async def test_a_model_that_cannot_fill_a_gap_is_asked_in_words() -> None:
    async with FakeOllama("x") as server:
        server.inserts = False
        model = OllamaChat("llama3.2", base_url=server.url)
        model.caps = GOES_ON
        assert await model.complete(Completion("a", "b"), lambda _event: None) is None
        assert await model.complete(Completion("a"), lambda _event: None) is not None
        model.caps = Capabilities()
        assert await model.complete(Completion("a"), lambda _event: None) is None
    assert len(server.requests) == 2
    async with FakeOllama("x", faults=FAULTS["400_too_long"]) as server:
        model = OllamaChat("llama3.2", base_url=server.url)
        model.caps = GOES_ON
        with pytest.raises(ContextOverflow, match="num_ctx"):
            await model.complete(Completion("a"), lambda _event: None)


async def test_nobody_counts_tokens_there() -> None:
    assert await MODEL.count_tokens(Request([Message("user", "q")])) is None


def test_a_tool_choice_shows_less_to_choose_from() -> None:
    def shown(choice: Any) -> list[str]:
        sent = body(tools=(ADD, ODD), settings={"tool_choice": choice})
        return [tool["function"]["description"] for tool in sent.get("tools", [])]

    assert shown(None) == shown("auto") == shown("required") == ["Add.", "Odd."]
    assert shown("none") == []
    assert shown({"name": "my.odd tool"}) == ["Odd."]
    assert shown("add") == ["Add."]
    with pytest.raises(ConfigError, match="tool_choice"):
        shown("sometimes")


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


def test_results_and_pictures() -> None:
    picture = Image(data="aGk=")
    sent = body(
        Message(
            "tool",
            (
                ToolResult("c1", "42", name="add"),
                ToolResult("c2", (Text("seen"), picture), is_error=True, name="my.odd tool"),
                ToolResult("c3", "plain"),
            ),
        ),
    )["messages"]
    odd = body(tools=(ODD,))["tools"][0]["function"]["name"]
    assert sent == [
        {"role": "tool", "tool_call_id": "c1", "content": "42", "tool_name": "add"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: seen", "tool_name": odd},
        {"role": "tool", "tool_call_id": "c3", "content": "plain"},
        {"role": "user", "content": "", "images": ["aGk="]},
    ]
    text = base64.b64encode(b"words").decode()
    [sent] = body(
        Message(
            "user",
            (
                Text("look"),
                picture,
                Image(url="data:image/png;base64,aG8="),
                Image(url="https://x/y.png"),
                Document(data=text, media_type="text/plain", title="Notes"),
                Document(data=text, title="Paper"),
                Document(url="https://x/y.pdf"),
            ),
        )
    )["messages"]
    assert sent["images"] == ["aGk=", "aG8="]
    for words in ("look", "https://x/y.png", "Notes:\nwords", "Paper: (application/pdf", "y.pdf"):
        assert words in sent["content"]


def test_each_message_is_encoded_once_however_long_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = OllamaChat("qwen3"), []
    plain = OllamaChat._message
    monkeypatch.setattr(OllamaChat, "_message", lambda self, m: (seen.append(m), plain(self, m))[1])
    frame, strand, before = Frame("be brief", (ADD,)), Strand(), b""
    for turn in range(150):
        strand.items.append(Message("user", f"q{turn}"))
        sent = b"".join(model.encode(Request(strand.snapshot(), frame)))
        strand.items.append(Message("assistant", (ToolCall(f"c{turn}", "add", {"a": turn}),)))
        strand.items.append(Message("tool", (ToolResult(f"c{turn}", "1", name="add"),)))
        assert sent.startswith(before.removesuffix(b"]}"))
        before = sent
    assert len(seen) == 3 * 150 - 2


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


async def test_the_vendors_client_goes_on_with_a_text_as_we_do() -> None:
    ollama = pytest.importorskip("ollama")
    async with FakeOllama(Reply("Grüße", "Hm.")) as server:
        client = ollama.AsyncClient(host=server.url)
        asked = {"model": "m", "prompt": "a", "suffix": "b"}
        whole = await client.generate(**asked)
        parts = [part async for part in await client.generate(**asked, stream=True)]
        await client._client.aclose()
        model = OllamaChat("m", base_url=server.url)
        model.caps = GOES_ON
        ours = await model.complete(Completion("a", "b"), lambda _event: None)
    assert ours is not None and whole.response == ours.text == "Grüße"
    assert "".join(part.response for part in parts) == ours.text
    assert [b.text for b in ours.message.content if isinstance(b, Thinking)] == [whole.thinking]


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
