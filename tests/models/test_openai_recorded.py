"""A recorded turn over Chat Completions goes back as the recorded next request sent it.

What may differ: how an empty content is written (null, "" or a list of nothing, which mean the same),
how the JSON text of arguments is spaced, and Mistral's `index` and `prefix: false`, which say what is
so without them.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from windlass.messages import Message
from windlass.models.base import Request, Response
from windlass.models.wires.openai.chat import OpenAIChat

FOLDER = Path(os.environ.get("WINDLASS_WIRE_DIR") or "")
if "WINDLASS_WIRE_DIR" not in os.environ:
    reason = "WINDLASS_WIRE_DIR is not set: recorded exchanges are not replayed"
    pytest.skip(reason, allow_module_level=True)
PROVIDERS = {"azure-openai": "azure"}
KNOWN = ("openai", "azure", "openrouter", "groq", "mistral", "deepseek", "huggingface")


def recorded() -> list[dict[str, Any]]:
    index = json.loads((FOLDER / "index.json").read_text())
    return [
        entry
        for entry in index["exchanges"]
        if "completions" in entry["file"] and entry["status"] == 200
    ]


def pairs() -> list[Any]:
    steps = {(e["chain"], e["chain_step"]): e for e in recorded()}
    return [
        pytest.param(entry, following, id=entry["file"].removesuffix(".json"))
        for (chain, step), entry in steps.items()
        if (following := steps.get((chain, step + 1))) and not entry["expected"]["error_in_stream"]
    ]


def model_of(entry: dict[str, Any]) -> OpenAIChat:
    provider = PROVIDERS.get(entry["provider"], entry["provider"])
    provider = provider if provider in KNOWN else "elsewhere"
    return OpenAIChat(entry["model"], provider=provider, base_url="http://h/v1", api_key="k")


def exchange(entry: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    both = json.loads((FOLDER / entry["file"]).read_text())
    asked, reply = both["request"]["body"], both["response"]
    body = reply["body"]
    return asked, body.encode() if reply["body_kind"] == "text" else json.dumps(body).encode()


def answered(model: OpenAIChat, raw: bytes, cuts: list[int]) -> Response:
    decoder = model.decoder(Request([]), lambda _: None)
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        decoder.feed(raw[start:end])
    return decoder.finish()


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    calls = [
        (
            call["id"],
            call["type"],
            call["function"]["name"],
            json.loads(call["function"]["arguments"]),
        )
        for call in message.get("tool_calls") or ()
    ]
    rest = {k: v for k, v in message.items() if k not in ("tool_calls", "content", "prefix")}
    return {**rest, "content": message.get("content") or None, "tool_calls": calls}


@pytest.mark.parametrize(("entry", "following"), pairs())
def test_a_turn_goes_back_as_the_next_request_sent_it(entry: Any, following: Any) -> None:
    model = model_of(entry)
    (before, raw), (after, _) = exchange(entry), exchange(following)
    (theirs,) = [
        message
        for message in after["messages"][len(before["messages"]) :]
        if message["role"] == "assistant"
    ]
    said = answered(model, raw, []).message
    body = b"".join(model.encode(Request([Message("user", "x"), said, Message("user", "y")])))
    assert comparable(json.loads(body)["messages"][1]) == comparable(theirs)


@pytest.mark.parametrize("entry", [pytest.param(e, id=e["file"][:-5]) for e in recorded()])
def test_however_the_network_cuts_it(entry: Any) -> None:
    if entry["expected"]["error_in_stream"]:
        return
    model, (_, raw) = model_of(entry), exchange(entry)
    whole = answered(model, raw, [])
    chance = random.Random(entry["file"])
    for _ in range(20):
        cuts = sorted(chance.sample(range(len(raw)), min(len(raw), chance.randint(1, 40))))
        again = answered(model, raw, cuts)
        assert again.text == whole.text and again.usage == whole.usage
        assert [(c.name, c.arguments) for c in again.message.tool_calls] == [
            (c.name, c.arguments) for c in whole.message.tool_calls
        ]
