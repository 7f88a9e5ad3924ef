"""Every recorded exchange, over whichever wire, says the same in whatever pieces it comes.

`WINDLASS_WIRE_DIR` names the folder; they are not part of the project.
"""

from __future__ import annotations

import base64
import json
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import ModelError
from windlass.models.base import Frame, Request, Settings
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses

FOLDER = os.environ.get("WINDLASS_WIRE_DIR")
if FOLDER is None:
    reason = "WINDLASS_WIRE_DIR is not set: recorded exchanges are not replayed"
    pytest.skip(reason, allow_module_level=True)
# a count of tokens, one of Bedrock's other doors, and requests beside a conversation
NO_REPLIES = ("anthropic-count-tokens", "bedrock-invoke", "openai-responses-other")


def recorded() -> list[Any]:
    index = json.loads(Path(FOLDER or "", "index.json").read_text())["exchanges"]
    return [
        pytest.param(entry, id=entry["file"].removesuffix(".json"))
        for entry in index
        if not entry["file"].startswith(NO_REPLIES) and entry["expected"]["finish"] != "http_error"
    ]


def model_of(entry: dict[str, Any]) -> HttpModel:
    name, endpoint = entry["model"] or "m", entry["endpoint"]
    if endpoint.startswith("converse"):
        return BedrockConverse(name, api_key="k", region="eu-west-1")
    if endpoint == "api/chat":
        return OllamaChat(name)
    if entry["provider"] in ("gemini", "vertex"):
        return GeminiGenerate(name, api_key="k")
    if entry["provider"] == "anthropic":
        return AnthropicMessages(name, api_key="k")
    if endpoint.startswith("responses"):
        return OpenAIResponses(name, api_key="k")
    return OpenAIChat(name, base_url="http://localhost/v1")


def body_of(entry: dict[str, Any]) -> bytes:
    reply = json.loads(Path(FOLDER or "", entry["file"]).read_text())["response"]
    if reply["body_kind"] == "base64":
        return base64.b64decode(reply["body"])
    body = reply["body"]
    return body.encode() if reply["body_kind"] == "text" else json.dumps(body).encode()


def told_by(model: HttpModel, stream: bool, chunks: list[bytes]) -> Any:
    """The reply without ids that are made up anew, or the error."""
    frame = Frame(settings=Settings(stream=stream))
    decoder = model.decoder(Request([], frame), lambda _event: None)
    try:
        for chunk in chunks:
            decoder.feed(chunk)
        reply = decoder.finish()
    except ModelError as error:
        return type(error), str(error)
    blocks = [
        (block.name, block.arguments, block.raw) if hasattr(block, "arguments") else block
        for block in reply.message.content
    ]
    return blocks, reply.stop_reason, reply.usage, reply.model, reply.native_id


@pytest.mark.parametrize("entry", recorded())
def test_in_random_pieces(entry: dict[str, Any]) -> None:
    model, raw = model_of(entry), body_of(entry)
    whole = told_by(model, entry["stream"], [raw])
    dice = random.Random(entry["file"])
    for pieces in (2, 3, 7, 40, 400):
        cuts = sorted(dice.sample(range(1, len(raw)), min(pieces, len(raw) - 1)))
        chunks = [raw[a:b] for a, b in pairwise([0, *cuts, len(raw)])]
        assert told_by(model, entry["stream"], chunks) == whole, cuts


def test_all_of_them_are_here() -> None:
    assert len(recorded()) >= 100
