"""Cache points on Bedrock: where they stand, and where none may stand."""

from __future__ import annotations

import json
from typing import Any

from windlass.messages import Document, Message, Text, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.models.wires.bedrock.model import BedrockConverse

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
MODEL = BedrockConverse(CLAUDE, api_key="k", region="us-east-1")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})


def body(
    *messages: Message, model: BedrockConverse = MODEL, tail: Any = (), **frame: Any
) -> dict[str, Any]:
    settings = Settings(**{"cache": False, **frame.pop("settings", {})})
    request = Request(messages, Frame(settings=settings, **frame), tail)
    return json.loads(b"".join(model.encode(request)))


POINT = {"cachePoint": {"type": "default"}}


def test_cache_points_stand_behind_the_head_and_behind_the_messages() -> None:
    tail = (Message("user", "the time is 12"),)
    ask, cached = Message("user", "q"), {"cache": None}
    sent = body(ask, system="Be brief.", tools=(ADD,), tail=tail, settings=cached)
    assert sent["system"] == [{"text": "Be brief."}, POINT]
    assert len(sent["toolConfig"]["tools"]) == 1  # they stand before the system prompt
    assert sent["messages"][0]["content"] == [{"text": "q"}, POINT, {"text": "the time is 12"}]
    bare = body(ask, tools=(ADD,), settings=cached)
    assert bare["toolConfig"]["tools"][1:] == [POINT] and "system" not in bare
    for off in (body(ask, system="s", tools=(ADD,)), body(ask, settings={"cache": False})):
        assert "cachePoint" not in json.dumps(off)
    assert "cachePoint" in json.dumps(body(ask, settings={"cache": True}))


def test_cache_points_only_where_the_model_takes_them() -> None:
    ask, cached = Message("user", "q"), {"cache": None}
    nova = BedrockConverse("us.amazon.nova-lite-v1:0", api_key="k", region="r")
    sent = body(ask, model=nova, tools=(ADD,), settings=cached)  # none behind its tools
    assert json.dumps(sent).count("cachePoint") == 1
    for name in ("mistral.novel-v1:0", "anthropic.claude-3-haiku-20240307-v1:0"):
        model = BedrockConverse(name, api_key="k", region="r")
        sent = body(ask, model=model, system="s", settings=cached)
        assert "cachePoint" not in json.dumps(sent)


def test_no_cache_point_where_it_would_be_refused() -> None:
    text, pdf = Document("eA==", "text/csv"), Document("eA==")
    cached = {"cache": None}
    assert (
        POINT
        not in body(Message("user", (Text("q"), text)), settings=cached)["messages"][0]["content"]
    )
    assert (
        POINT in body(Message("user", (Text("q"), pdf)), settings=cached)["messages"][0]["content"]
    )
    mine = body(Message("user", "q"), Message("assistant", "and"), settings=cached)
    assert "cachePoint" not in json.dumps(mine["messages"])  # it goes on with its own words
    assert body(settings=cached)["messages"] == []
