"""What goes out over Ollama's own wire: every option in its place, and texts to go on with."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from windlass.errors import (
    ConfigError,
    ContextOverflow,
)
from windlass.messages import (
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Completion, Frame, Request, Settings, Strand
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.ollama.model import OllamaChat
from windlass.testing.providers import FAULTS, FakeOllama, Reply

MODEL = OllamaChat("qwen3")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
ODD = ToolSpec("my.odd tool", "Odd.", {})


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
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 3,
            "stop": ("x",),
            "seed": 4,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "thinking": True,
            "parallel_tool_calls": False,
            "stream": False,
            "extra": {"options": {"num_ctx": 8192}, "keep_alive": "10m", "format": "json"},
        },
    )
    assert sent.pop("options") == {
        "num_predict": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stop": ["x"],
        "seed": 4,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "num_ctx": 8192,
    }
    assert sent.pop("messages")[0] == {"role": "system", "content": "Be brief."}
    function = {"name": "add", "description": "Add.", "parameters": ADD.parameters}
    assert sent.pop("tools") == [{"type": "function", "function": function}]
    assert sent == {
        "model": "qwen3",
        "stream": False,
        "truncate": False,
        "shift": False,
        "think": True,
        "keep_alive": "10m",
        "format": "json",
    }
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
        "Be brief.",
        "One? /no_think",
        "1",
        "Two? /no_think",
        "/no_think",
    ]
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
    extra = {
        "num_ctx": 32768,
        "keep_alive": "30m",
        "options": {"min_p": 0.1},
        "stream": True,
        "messages": "never",
        "a_field_of_tomorrow": 1,
    }
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
    asked = {
        "model": "codellama",
        "stream": stream,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": 9, "num_ctx": 4096},
    }
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
