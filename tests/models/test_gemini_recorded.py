"""A recorded turn over Gemini's wire goes back as the recorded next request sent it.

What may differ: the value of `functionCall.id` where the model gave none, since the client that was
recorded made one up and so do we; and the alphabet of a signature's base64, which that client wrote
anew while we send the letters that came.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from windlass.messages import Message, ToolResult
from windlass.models.base import Request, Response
from windlass.models.wires.gemini import rules as rules
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate

FOLDER = Path(os.environ.get("WINDLASS_WIRE_DIR") or "")
if "WINDLASS_WIRE_DIR" not in os.environ:
    reason = "WINDLASS_WIRE_DIR is not set: recorded exchanges are not replayed"
    pytest.skip(reason, allow_module_level=True)


def recorded() -> list[dict[str, Any]]:
    index = json.loads((FOLDER / "index.json").read_text())
    both = ("gemini", "vertex")
    return [e for e in index["exchanges"] if e["provider"] in both and e["status"] == 200]


def pairs() -> list[Any]:
    steps = {(e["chain"], e["chain_step"]): e for e in recorded()}
    return [
        pytest.param(entry, following, id=entry["file"].removesuffix(".json"))
        for (chain, step), entry in steps.items()
        if (following := steps.get((chain, step + 1)))
    ]


def exchange(entry: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    both = json.loads((FOLDER / entry["file"]).read_text())
    reply = both["response"]
    body = reply["body"]
    raw = body.encode() if reply["body_kind"] == "text" else json.dumps(body).encode()
    return both["request"]["body"], raw


def model_for(entry: dict[str, Any]) -> GeminiGenerate:
    if entry["provider"] == "vertex":
        return VertexGenerate(entry["model"], token="t", project="p")
    return GeminiGenerate(entry["model"], api_key="k")


def answered(entry: dict[str, Any]) -> Response:
    decoder = model_for(entry).decoder(Request([]), lambda _: None)
    decoder.feed(exchange(entry)[1])
    return decoder.finish()


def sent(model: GeminiGenerate, *messages: Message) -> list[dict[str, Any]]:
    body = b"".join(model.encode(Request([Message("user", "x"), *messages])))
    return json.loads(body)["contents"][1:]


def comparable(content: dict[str, Any]) -> dict[str, Any]:
    parts = [dict(part) for part in content["parts"]]
    for part in parts:
        if "thoughtSignature" in part:
            part["thoughtSignature"] = base64.urlsafe_b64decode(
                part["thoughtSignature"].replace("+", "-").replace("/", "_")
            )
        for kind in ("functionCall", "functionResponse"):
            if kind in part:
                assert part[kind]["id"]
                part[kind] = {k: v for k, v in part[kind].items() if k != "id"}
    return {"role": content["role"], "parts": parts}


def test_there_are_chains() -> None:
    assert len(pairs()) >= 3


@pytest.mark.parametrize(("entry", "following"), pairs())
def test_a_turn_goes_back_as_the_next_request_sent_it(entry: Any, following: Any) -> None:
    model = model_for(entry)
    before, after = exchange(entry)[0], exchange(following)[0]
    theirs, answers = after["contents"][len(before["contents"]) :]
    message = answered(entry).message
    (ours,) = sent(model, message)
    assert comparable(ours) == comparable(theirs)
    # results pair up in the same order, each under the id of its call, on both sides
    results = [ToolResult(call.id, "x", name=call.name) for call in message.tool_calls]
    _, mine = sent(model, message, Message("tool", tuple(results)))
    for asked, told in ((theirs, answers), (ours, mine)):
        assert [(p["functionCall"]["name"], p["functionCall"]["id"]) for p in asked["parts"]] == [
            (p["functionResponse"]["name"], p["functionResponse"]["id"]) for p in told["parts"]
        ]


@pytest.mark.parametrize("entry", [pytest.param(e, id=e["file"][:-5]) for e in recorded()])
def test_what_came_goes_back_part_by_part_and_to_nobody_else(entry: Any) -> None:
    raw = exchange(entry)[1]
    if entry["stream"]:
        lines = [line for line in raw.decode().splitlines() if line.startswith("data: ")]
        chunks = [json.loads(line[6:]) for line in lines]
    else:
        chunks = [json.loads(raw)]
    came: list[dict[str, Any]] = [
        part
        for chunk in chunks
        for part in chunk["candidates"][0].get("content", {}).get("parts", [])
        if part != {"text": ""}
    ]
    native = [part for part in came if "text" not in part or "thoughtSignature" in part]
    message = answered(entry).message
    mine = [part for content in sent(model_for(entry), message) for part in content["parts"]]
    kept = [part for part in mine if "text" not in part or "thoughtSignature" in part]
    for part in (*kept, *native):
        part.get("functionCall", {}).pop("id", None)
    assert kept == native
    assert "".join(p["text"] for p in came if "text" in p) == message.text
    other = GeminiGenerate("gemini-2.0-flash-other", api_key="k")
    away = [part for content in sent(other, message) for part in content["parts"]]
    signed = [part["thoughtSignature"] for part in came if "thoughtSignature" in part]
    assert not [part for part in away if part.get("thoughtSignature") in signed]
    assert all({"text", "functionCall"} & part.keys() for part in away)


@pytest.mark.parametrize("entry", [pytest.param(e, id=e["file"][:-5]) for e in recorded()])
def test_what_google_took_our_rules_take(entry: Any) -> None:
    rules.check(exchange(entry)[0], ids=entry["provider"] == "gemini", signs=False)
