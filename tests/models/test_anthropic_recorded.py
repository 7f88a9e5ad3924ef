"""Recorded exchanges with Anthropic: turns go back as they came, searches are read, tokens counted.

`WINDLASS_WIRE_DIR` names the folder; the exchanges are not part of the project.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import BadReply
from windlass.messages import Message, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Response, Settings, silent
from windlass.models.tool_search import searches
from windlass.models.wires.anthropic.model import AnthropicMessages

FOLDER = os.environ.get("WINDLASS_WIRE_DIR")
if FOLDER is None:
    reason = "WINDLASS_WIRE_DIR is not set: recorded exchanges are not replayed"
    pytest.skip(reason, allow_module_level=True)


def exchanges(endpoint: str = "messages") -> list[dict[str, Any]]:
    folder = Path(FOLDER or "")
    index = json.loads((folder / "index.json").read_text())["exchanges"]
    return [
        {**json.loads((folder / entry["file"]).read_text()), **entry}
        for entry in index
        if (entry["provider"], entry["endpoint"]) == ("anthropic", endpoint)
    ]


def raw_of(entry: dict[str, Any]) -> bytes:
    reply = entry["response"]
    text = reply["body"] if reply["body_kind"] == "text" else json.dumps(reply["body"])
    return text.encode()


def decode(model: AnthropicMessages, *chunks: bytes) -> Response:
    decoder = model.decoder(Request([]), silent)
    for chunk in chunks:
        decoder.feed(chunk)
    return decoder.finish()


def answered() -> list[dict[str, Any]]:
    return [entry for entry in exchanges() if entry["response"]["status"] == 200]


@pytest.mark.parametrize("entry", answered(), ids=lambda entry: entry["file"])
def test_any_split_reads_the_same(entry: dict[str, Any]) -> None:
    raw, model = raw_of(entry), AnthropicMessages(entry["model"], api_key="k")
    whole, chance = decode(model, raw), random.Random(entry["file"])
    for _ in range(5):
        cuts = sorted(chance.randrange(len(raw) + 1) for _ in range(chance.randrange(1, 40)))
        parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        assert decode(model, *parts) == whole


def test_turns_go_back_as_the_next_request_sent_them() -> None:
    chains: dict[str, list[dict[str, Any]]] = {}
    for entry in answered():
        chains.setdefault(entry["chain"], []).append(entry)
    compared = 0
    for steps in chains.values():
        steps.sort(key=lambda entry: entry["chain_step"])
        for before, after in zip(steps, steps[1:], strict=False):
            model = AnthropicMessages(before["model"], api_key="k")
            reply = decode(model, raw_of(before)).message
            sent = json.loads(b"".join(model.encode(Request([Message("user", "q"), reply]))))
            turns = [m for m in after["request"]["body"]["messages"] if m["role"] == "assistant"]
            assert like_their_client(sent["messages"][1]["content"]) == turns[-1]["content"]
            compared += 1
    assert compared == 2


def like_their_client(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Their client leaves out who called a tool, which nobody asks for; we send it back."""
    return [{k: v for k, v in block.items() if k != "caller"} for block in blocks]


def test_a_search_of_the_providers_own_is_read() -> None:
    found = {
        entry["file"]: searches(decode(AnthropicMessages("m", api_key="k"), raw_of(entry)).message)
        for entry in answered()
    }
    assert {file: one for file, one in found.items() if one} == {
        "anthropic-messages-s-17.json": [
            (
                "srvtoolu_01S5swZdBmTzLDVzwcT5LbHp",
                "USD EUR exchange rate currency conversion",
                "bm25",
                ("get_exchange_rate",),
            )
        ]
    }


class Replayed:
    """A transport that gives one recorded answer and keeps what was asked."""

    def __init__(self, entry: dict[str, Any], *parts: bytes) -> None:
        self.asked = ("", b"")
        self.status = entry["response"]["status"]
        self.headers = entry["response"]["headers"]
        self._parts = list(parts or [raw_of(entry)])

    async def send(self, _method: str, url: str, _headers: Any, body: Any, connect: float) -> Any:
        self.asked = url, b"".join(body)
        return self

    async def read(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


async def test_a_recorded_count_of_tokens() -> None:
    [entry] = exchanges("count_tokens")
    there, theirs = Replayed(entry), entry["request"]["body"]
    model = AnthropicMessages(entry["model"], api_key="k", transport=there)
    call = ToolCall("search-1", "search_tools", {"queries": ["exchange rate"]})
    messages = [
        Message("user", "What is the USD to EUR rate?"),
        Message("assistant", (call,)),
        Message("tool", (ToolResult("search-1", "get_exchange_rate"),)),
    ]
    tool = ToolSpec("get_exchange_rate", "", {"type": "object"})
    settings = Settings(tool_choice="auto", cache=False, max_tokens=9, temperature=0.5)
    frame = Frame(tools=(tool,), settings=settings)
    assert await model.count_tokens(Request(messages, frame)) == 641
    url, body = there.asked
    assert url == entry["request"]["url"].partition("?")[0]
    ours = json.loads(body)
    assert ours.keys() == theirs.keys()
    for key in ("model", "tools", "tool_choice"):
        assert ours[key] == theirs[key]
    assert ours["messages"][:2] == theirs["messages"][:2]


async def test_a_count_in_any_pieces_and_cut_anywhere() -> None:
    [entry] = exchanges("count_tokens")
    raw, request = raw_of(entry), Request([Message("user", "q")])

    def model(*parts: bytes) -> AnthropicMessages:
        return AnthropicMessages(entry["model"], api_key="k", transport=Replayed(entry, *parts))

    for cut in range(1, len(raw)):
        assert await model(raw[:cut], raw[cut:]).count_tokens(request) == 641
        with pytest.raises(BadReply):
            await model(raw[:cut]).count_tokens(request)
    for wrong in (b"{}", b'{"input_tokens":"7"}', b"[1]", b'{"input_tokens":true}'):
        with pytest.raises(BadReply, match="no number"):
            await model(wrong).count_tokens(request)
