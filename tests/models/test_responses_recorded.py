"""A recorded turn over the Responses wire goes back as the recorded next request sent it.

What may differ: `id` and `status` of calls and messages, which name what is stored at the provider
(some clients send them, some do not, and nothing is stored here); how the JSON text of arguments is
spaced; and the items of OpenAI's own tool search, which one recording client rewrote into its own
words while we send them as they came.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from windlass.messages import Message, Origin, Thinking
from windlass.models.base import Request, Response
from windlass.models.wires.openai.responses import OpenAIResponses

FOLDER = Path(os.environ.get("WINDLASS_WIRE_DIR") or "")
if "WINDLASS_WIRE_DIR" not in os.environ:
    reason = "WINDLASS_WIRE_DIR is not set: recorded exchanges are not replayed"
    pytest.skip(reason, allow_module_level=True)


def recorded() -> list[dict[str, Any]]:
    index = json.loads((FOLDER / "index.json").read_text())
    return [e for e in index["exchanges"] if e["endpoint"] == "responses" and e["status"] == 200]


def pairs() -> list[Any]:
    steps = {(e["chain"], e["chain_step"]): e for e in recorded()}
    return [
        pytest.param(entry, following, id=entry["file"].removesuffix(".json"))
        for (chain, step), entry in steps.items()
        if (following := steps.get((chain, step + 1)))
    ]


def exchange(entry: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    both = json.loads((FOLDER / entry["file"]).read_text())
    asked, reply = both["request"]["body"], both["response"]
    asked = json.loads(asked) if isinstance(asked, str) else asked
    body = reply["body"]
    return asked, body.encode() if reply["body_kind"] == "text" else json.dumps(body).encode()


def answered(model: OpenAIResponses, entry: dict[str, Any]) -> Response:
    decoder = model.decoder(Request([]), lambda _: None)
    decoder.feed(exchange(entry)[1])
    return decoder.finish()


def sent(model: OpenAIResponses, message: Message) -> list[dict[str, Any]]:
    body = b"".join(model.encode(Request([Message("user", "x"), message])))
    return json.loads(body)["input"][1:]


def comparable(item: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in item.items() if k not in ("id", "status")}
    if item["type"] == "reasoning":
        return item
    if "arguments" in kept and isinstance(kept["arguments"], str):
        kept["arguments"] = json.loads(kept["arguments"])
    return kept


@pytest.mark.parametrize(("entry", "following"), pairs())
def test_a_turn_goes_back_as_the_next_request_sent_it(entry: Any, following: Any) -> None:
    model = OpenAIResponses(entry["model"], api_key="k")
    before, after = exchange(entry)[0], exchange(following)[0]
    if after.get("previous_response_id"):
        assert not any(item.get("type") == "function_call" for item in after["input"])
        return  # kept at the provider: nothing of the turn was sent
    new = after["input"][len(before["input"]) :]
    theirs = [
        comparable(item)
        for item in new
        if item.get("type") in ("reasoning", "function_call", "message")
    ]
    ours = sent(model, answered(model, entry).message)
    mine = [comparable(item) for item in ours if not item["type"].startswith("tool_search")]
    assert theirs and mine == theirs


@pytest.mark.parametrize("entry", [pytest.param(e, id=e["file"][:-5]) for e in recorded()])
def test_items_only_openai_understands_go_back_unchanged_and_to_nobody_else(entry: Any) -> None:
    model = OpenAIResponses(entry["model"], api_key="k")
    raw = exchange(entry)[1]
    if entry["stream"]:
        *_, last = [line for line in raw.decode().split("\n") if line.startswith("data: ")]
        output = json.loads(last[6:])["response"]["output"]
    else:
        output = json.loads(raw)["output"]
    message = answered(model, entry).message
    native = ("function_call", "message")
    ours = [item for item in sent(model, message) if item["type"] not in native]
    assert ours == [
        item
        for item in output
        if item["type"] not in native
        and (item["type"] != "reasoning" or item.get("encrypted_content"))
    ]
    assert [item["type"] for item in sent(model, message)] == [
        item["type"]
        for item in output
        if item["type"] != "reasoning" or item.get("encrypted_content")
    ]
    other = OpenAIResponses("gpt-another", api_key="k")
    assert {item["type"] for item in sent(other, message)} <= {"function_call", "message"}
    if any(isinstance(block, Thinking) for block in message.content):
        assert Origin("openai", entry["model"]) in [
            block.origin for block in message.content if isinstance(block, Thinking)
        ]
