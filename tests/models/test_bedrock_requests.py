"""What goes out to Bedrock: turns, tools, files, thinking, schemas."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import closing
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.errors import ConfigError
from windlass.messages import (
    Document,
    Image,
    Message,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Frame, Request, Settings, Strand
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.testing.providers import FakeBedrock, Reply, conversation

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
MODEL = BedrockConverse(CLAUDE, api_key="k", region="us-east-1")
HERE = Origin("bedrock", CLAUDE)
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
ODD = ToolSpec("my.odd tool", "", {})


def body(
    *messages: Message, model: BedrockConverse = MODEL, tail: Any = (), **frame: Any
) -> dict[str, Any]:
    """The request's body, without cache points unless they are asked for."""
    settings = Settings(**{"cache": False, **frame.pop("settings", {})})
    request = Request(messages, Frame(settings=settings, **frame), tail)
    return json.loads(b"".join(model.encode(request)))


# --------------------------------------------------------------------------- turns


def test_two_messages_of_one_side_are_one_turn() -> None:
    call = ToolCall("c1", "add", {"a": 1})
    sent = body(
        Message("system", "First."),
        Message("user", "q"),
        Message("user", "and r"),
        Message("assistant", (Text("  "),)),
        Message("user", "s"),
        Message("assistant", (Text("ok"), call)),
        Message("tool", (ToolResult("c1", "1", name="add"),)),
        Message("user", "nudge"),
        Message("system", "Late."),
        system="Be brief.",
        tools=(ADD,),
        tail=(Message("user", ()), Message("user", "the time"), Message("assistant", "Well,")),
    )
    assert sent["system"] == [{"text": "Be brief.\n\nFirst."}]
    use = {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1}}}
    result = {"toolResult": {"toolUseId": "c1", "content": [{"text": "1"}]}}
    said = [{"text": words} for words in ("nudge", "Late.", "the time")]
    assert sent["messages"] == [
        {"role": "user", "content": [{"text": "q"}, {"text": "and r"}, {"text": "s"}]},
        {"role": "assistant", "content": [{"text": "ok"}, use]},
        {"role": "user", "content": [result, *said]},
        {"role": "assistant", "content": [{"text": "Well,"}]},
    ]
    assert body()["messages"] == [] == body(Message("user", " "))["messages"]
    assert body(tail=(Message("user", "t"),))["messages"][0]["content"] == [{"text": "t"}]


def test_results_come_first_and_errors_are_told_in_words() -> None:
    picture = Image(data="aGk=")
    sent = body(
        Message(
            "tool",
            (
                Text("by the way"),
                ToolResult("c1", ""),
                ToolResult("c/2", (Text("no"), picture), is_error=True),
                ToolResult("functions.f:0", (Text("see"), picture)),
            ),
        )
    )["messages"][0]["content"]
    image = {"image": {"format": "png", "source": {"bytes": "aGk="}}}
    [first, second, third] = [block["toolResult"] for block in sent[:3]]
    assert first == {"toolUseId": "c1", "content": [{"text": "(no output)"}]}
    assert (second["content"], second["status"]) == ([{"text": "no"}], "error")
    assert (
        second["toolUseId"]
        == body(Message("assistant", (ToolCall("c/2", "x", {}),)))["messages"][-1]["content"][0][
            "toolUse"
        ]["toolUseId"]
    )
    assert third == {"toolUseId": "functions.f:0", "content": [{"text": "see"}, image]}
    assert sent[3] == {"text": "by the way"}


def test_files() -> None:
    data = base64.b64encode(b"words").decode()
    files = (
        Image(url="data:image/jpeg;base64,aG8="),
        Image(url="s3://bucket/kiwi.webp", media_type="image/webp"),
        Image(url="https://x/y.png"),
        Image(data="aGk=", media_type="image/tiff"),
        Document(data=data, title="Über: das  Blatt.pdf"),
        Document(data=data, media_type="text/x-rst"),
        Document(url="https://x/y.pdf", title="Paper"),
        Document(data=data, media_type="application/zip"),
    )
    sent = body(Message("user", files))["messages"][0]["content"]
    assert sent[0] == {"image": {"format": "jpeg", "source": {"bytes": "aG8="}}}
    where = {"s3Location": {"uri": "s3://bucket/kiwi.webp"}}
    assert sent[1] == {"image": {"format": "webp", "source": where}}
    assert sent[2] == {"text": "Image: https://x/y.png"}
    assert "image/tiff" in sent[3]["text"]
    document = sent[4]["document"]
    assert (document["format"], document["source"]) == ("pdf", {"bytes": data})
    assert document["name"].startswith("ber das Blatt pdf ")
    assert sent[5]["document"]["format"] == "txt"
    assert sent[6] == {"text": "Paper: https://x/y.pdf"}
    assert "application/zip" in sent[7]["text"]
    alone = body(Message("user", (files[4],)))["messages"][0]["content"]
    assert [*alone[0], *alone[1]] == ["document", "text"]  # a document alone is refused


@pytest.mark.parametrize("name", [CLAUDE, "us.amazon.nova-lite-v1:0", "mistral.novel-v1:0"])
def test_files_in_results_stand_inside_or_behind_them(name: str) -> None:
    model = BedrockConverse(name, api_key="k", region="r")
    image, paper = Image("aGk="), Document("eA==", title="T")
    results = (
        ToolResult("a", (Text("see"), image)),
        ToolResult("b", (paper,)),
        ToolResult("c", (Image(url="https://x/y.png"),)),
    )
    sent = body(Message("tool", results), model=model)["messages"][0]["content"]
    a, b, c = (block["toolResult"]["content"] for block in sent[:3])
    assert a[0] == {"text": "see"} and c == [{"text": "Image: https://x/y.png"}]
    if model.caps.media_results:
        assert "image" in a[1] and "document" in b[0] and len(sent) == 3
    else:  # the results come first all the same
        assert len(a) == 1 and b == [{"text": "(see below)"}]
        assert [next(iter(block)) for block in sent[3:]] == ["image", "document", "text"]
    assert model.caps.media_results is (name != "mistral.novel-v1:0")


def test_documents_in_an_address() -> None:
    text = Document(url="data:text/csv;base64,YSxi")
    [sent, _] = body(Message("user", (text,)))["messages"][0]["content"]
    assert sent["document"]["format"] == "csv" and sent["document"]["source"] == {"bytes": "YSxi"}


def test_state_goes_back_only_to_who_made_it() -> None:
    other = Origin("anthropic", "claude-sonnet-4-5")
    blocks = (
        Thinking("hm", {"signature": "s"}, HERE),
        Thinking("hm", {"signature": "s"}, other),
        Thinking("unsigned", None, HERE),
        Thinking("", {"redactedContent": "aGk="}, HERE),
        Opaque(HERE, {"toolResult": {"toolUseId": "x", "content": []}}),
        Opaque(other, {"type": "server_tool_use"}),
        Text("so"),
        ToolCall("c1", "add", {}, None, {"type": "tool_use"}, HERE),
        ToolCall("c2", "add", {}, None, {"caller": "x"}, other),
    )
    *_, turn = body(Message("assistant", blocks))["messages"]
    signed = {"reasoningText": {"text": "hm", "signature": "s"}}
    assert turn["content"] == [
        {"reasoningContent": signed},
        {"reasoningContent": {"redactedContent": "aGk="}},
        {"toolResult": {"toolUseId": "x", "content": []}},
        {"text": "so"},
        {"toolUse": {"toolUseId": "c1", "name": "add", "input": {}, "type": "tool_use"}},
        {"toolUse": {"toolUseId": "c2", "name": "add", "input": {}}},
    ]


def test_each_message_is_encoded_once_however_long_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = BedrockConverse(CLAUDE, api_key="k", region="r"), []
    plain = BedrockConverse._message
    heads: list[Frame] = []
    head = BedrockConverse._head
    monkeypatch.setattr(
        BedrockConverse, "_message", lambda self, m: (seen.append(m), plain(self, m))[1]
    )
    monkeypatch.setattr(
        BedrockConverse, "_head", lambda self, *a: (heads.append(a[0]), head(self, *a))[1]
    )
    frame, strand, before, snapshots = Frame("be brief", (ADD,)), Strand(), b"", []
    point = b',{"cachePoint":{"type":"default"}}]}]}'
    for turn in range(150):
        strand.items.append(Message("user", f"q{turn}"))
        snapshots.append(strand.snapshot())
        sent = b"".join(model.encode(Request(snapshots[-1], frame)))
        strand.items.append(Message("assistant", (ToolCall(f"c{turn}", "add", {"a": turn}),)))
        strand.items.append(Message("tool", (ToolResult(f"c{turn}", "1", name="add"),)))
        assert sent.startswith(before.removesuffix(point)) and sent.endswith(point)
        before = sent
    assert len(seen) == 3 * 150 - 2 and len(heads) == 1
    for view in snapshots[::7]:  # older snapshots read as a plain list does
        whole = b"".join(model.encode(Request(list(view), frame)))
        assert b"".join(model.encode(Request(view, frame))) == whole
        roles = [message["role"] for message in json.loads(whole)["messages"]]
        assert all(a != b for a, b in zip(roles, roles[1:], strict=False))


# --------------------------------------------------------------------------- the frame


def test_every_setting_has_its_place() -> None:
    sent = body(
        Message("user", "q"),
        system="Be brief.",
        tools=(ADD, ODD),
        settings={
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 3,
            "stop": ("x",),
            "seed": 4,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "parallel_tool_calls": False,
            "extra": {
                "inferenceConfig": {"topP": 0.1},
                "toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]},
                "additionalModelRequestFields": {"top_k": 3},
                "guardrailConfig": {"guardrailIdentifier": "g"},
            },
        },
    )
    assert sent.pop("messages")
    assert sent.pop("inferenceConfig") == {
        "maxTokens": 9,
        "temperature": 0.5,
        "topP": 0.1,
        "stopSequences": ["x"],
    }
    [add, odd, system] = sent.pop("toolConfig")["tools"]
    schema = {"json": ADD.parameters}
    assert add == {"toolSpec": {"name": "add", "description": "Add.", "inputSchema": schema}}
    assert "description" not in odd["toolSpec"]  # an empty one is refused
    assert odd["toolSpec"]["inputSchema"]["json"]["type"] == "object"
    assert system == {"systemTool": {"name": "nova_grounding"}}
    assert sent == {
        "system": [{"text": "Be brief."}],
        "additionalModelRequestFields": {"top_k": 3},
        "guardrailConfig": {"guardrailIdentifier": "g"},
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ("any", {"any": {}}),
        ({"name": "add"}, {"tool": {"name": "add"}}),
        ("add", {"tool": {"name": "add"}}),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    config = body(tools=(ADD,), settings={"tool_choice": choice})["toolConfig"]
    assert config.get("toolChoice") == sent


def test_there_is_no_word_for_no_tools() -> None:
    used = [
        Message("user", "q"),
        Message("assistant", (ToolCall("c", "add", {}),)),
        Message("tool", (ToolResult("c", "1"),)),
    ]
    none = {"tool_choice": "none"}
    assert "toolConfig" not in body(used[0], tools=(ADD,), settings=none)
    assert "toolConfig" not in body(used[0])
    # calls in the history are refused where no tool is defined
    for sent in (body(*used), body(*used, tools=(ADD,), settings=none)):
        assert [t["toolSpec"]["name"] for t in sent["toolConfig"]["tools"]] == ["no_tool"]
    with pytest.raises(ConfigError, match="tool_choice"):
        body(tools=(ADD,), settings={"tool_choice": "sometimes"})


BETWEEN = "interleaved-thinking-2025-05-14"


def test_thinking_as_each_model_takes_it() -> None:
    def asked(name: str, **settings: Any) -> dict[str, Any]:
        model = BedrockConverse(name, api_key="k", region="r")
        return body(model=model, tools=(ADD,), settings={"temperature": 0.5, **settings})

    sent = asked(CLAUDE, thinking={"budget_tokens": 2000}, tool_choice="auto")
    thinking = {"type": "enabled", "budget_tokens": 2000}
    assert sent["additionalModelRequestFields"]["thinking"] == thinking
    assert "inferenceConfig" not in sent  # a thinking model sets its own temperature
    forced = asked(CLAUDE, thinking={"budget_tokens": 2000}, tool_choice="required")
    assert forced["additionalModelRequestFields"] == {"thinking": {"type": "disabled"}}
    assert forced["toolConfig"]["toolChoice"] == {"any": {}}
    off = asked(CLAUDE, thinking=False)
    assert off["additionalModelRequestFields"] == {"thinking": {"type": "disabled"}}
    assert off["inferenceConfig"] == {"temperature": 0.5}
    sent = asked("anthropic.claude-opus-4-8-v1:0", thinking={"effort": "low"})
    assert sent["additionalModelRequestFields"]["thinking"] == {"type": "adaptive"}
    assert sent["outputConfig"] == {"effort": "low"}
    unknown = "mistral.novel-v1:0"
    assert "additionalModelRequestFields" not in asked(unknown, thinking=True)
    own = {"type": "enabled", "budget_tokens": 1024}
    sent = asked(unknown, thinking=own)
    assert sent["additionalModelRequestFields"] == {"thinking": own}


def test_beta_features_stand_in_the_body() -> None:
    opus = BedrockConverse("us.anthropic.claude-opus-4-6-v1:0", api_key="k", region="r")
    sent = body(model=opus, settings={"thinking": True, "beta": ("b",)})
    assert sent["additionalModelRequestFields"] == {
        "thinking": {"type": "adaptive"},
        "anthropic_beta": ["b", BETWEEN],
    }
    plain = body(model=opus, settings={"thinking": True, "interleaved_thinking": False})
    assert "anthropic_beta" not in plain["additionalModelRequestFields"]
    nova = BedrockConverse("amazon.nova-pro-v1:0", api_key="k", region="r")
    for settings in ({"beta": ("b",)}, {"interleaved_thinking": True}):
        with pytest.raises(ConfigError, match="has no beta features"):
            body(model=nova, settings=settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"response_format": "json"}, "no JSON mode"), ({"tool_search": "bm25"}, "no search")],
)
def test_what_has_no_place_on_the_wire_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        body(Message("user", "q"), tools=(ADD,), settings=settings)


def test_a_model_that_cannot_be_made_to_call_says_so() -> None:
    llama = BedrockConverse("meta.llama3-1-70b-instruct-v1:0", api_key="k", region="r")
    with pytest.raises(ConfigError, match="cannot be made to call a tool"):
        body(model=llama, tools=(ADD,), settings={"tool_choice": "required"})
    assert body(model=llama, tools=(ADD,), settings={"tool_choice": "auto"})["toolConfig"]


def test_a_schema_goes_as_text() -> None:
    schema = {"title": "My point", "type": "object", "properties": {"x": {"type": "integer"}}}
    opus = BedrockConverse("anthropic.claude-opus-4-8-v1:0", api_key="k", region="r")
    sent = body(model=opus, settings={"schema": schema, "thinking": {"effort": "low"}})
    config = sent["outputConfig"]
    text = config["textFormat"]["structure"]["jsonSchema"].pop("schema")
    assert json.loads(text) == {**schema, "additionalProperties": False}
    assert config["effort"] == "low" and config["textFormat"]["type"] == "json_schema"
    assert config["textFormat"]["structure"]["jsonSchema"]["name"].startswith("My_point")


def test_a_strict_tool_where_the_model_can_be_held_to_it() -> None:
    strict = msgspec.structs.replace(ADD, strict=True)
    model = BedrockConverse(CLAUDE, api_key="k", region="r")
    for can in (False, True):
        model.caps = msgspec.structs.replace(model.caps, strict_tools=can)
        (tool,) = body(model=model, tools=(strict,))["toolConfig"]["tools"]
        assert tool["toolSpec"].get("strict", False) is can
        closed = tool["toolSpec"]["inputSchema"]["json"].get("additionalProperties")
        assert closed is (False if can else None)


@pytest.mark.parametrize(
    ("thinking", "config"),
    [
        (True, {"type": "enabled", "maxReasoningEffort": "medium"}),
        ({"effort": "high"}, {"type": "enabled", "maxReasoningEffort": "high"}),
        (False, {"type": "disabled"}),
        ({"mode": "disabled"}, {"type": "disabled"}),
    ],
)
def test_nova_thinks_by_levels(thinking: Any, config: Any) -> None:
    for name in ("us.amazon.nova-2-lite-v1:0", "amazon.nova-2-lite-v1:0"):
        model = BedrockConverse(name, api_key="k", region="r")
        sent = body(model=model, settings={"thinking": thinking})
        assert sent["additionalModelRequestFields"] == {"reasoningConfig": config}


def test_a_vendors_model_is_known_under_amazons_name() -> None:
    assert MODEL.info is not None and MODEL.info.name == "claude-sonnet-4-5"
    arn = f"arn:aws:bedrock:us-east-1:1:inference-profile/{CLAUDE}"
    assert BedrockConverse(arn, api_key="k", region="r").info == MODEL.info
    assert BedrockConverse("qwen.novel-v1:0", api_key="k", region="r").info is None


# --------------------------------------------------------------------------- together


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
    async with FakeBedrock(script, api_key="k") as server:
        model = BedrockConverse(CLAUDE, api_key="k", base_url=server.url)
        out = await w.Agent(model, tools=[add, shout], stream=stream).run("go")
    assert (out.status, out.final_text) == ("done", "7")
    assert not server.refused, server.refused[0].message
    assert server.requests[0].path.endswith("/converse-stream" if stream else "/converse")
    [_, turn, results] = server.requests[1].json["messages"]
    assert "reasoningContent" in turn["content"][0]  # signed, and checked by the server
    *blocks, point = results["content"]
    assert [block["toolResult"].get("status") for block in blocks] == [None, "error"]
    assert point == {"cachePoint": {"type": "default"}}


async def test_a_session_begun_elsewhere_goes_on_here() -> None:
    other = Origin("openai", "gpt-5")
    history = [
        Message("user", "go"),
        Message(
            "assistant",
            (Thinking("hm", {"encrypted": "x"}, other), ToolCall("call|1", "my.tool", {"a": 1})),
        ),
        Message("tool", (ToolResult("call|1", "1", name="my.tool"),)),
    ]
    async with FakeBedrock("done", api_key="k") as server:
        model = BedrockConverse(CLAUDE, api_key="k", base_url=server.url)
        reply = await model.respond(Request(history), lambda _event: None)
    assert reply.message.text == "done" and not server.refused


async def test_the_vendors_client_reads_the_fake_as_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    session = pytest.importorskip("botocore.session")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    script = Reply("Grüße", "Hm.", [("add", {"a": 1})])
    messages = [{"role": "user", "content": [{"text": "q"}]}]

    def ask(url: str) -> Any:
        client = session.get_session().create_client(
            "bedrock-runtime", region_name="us-east-1", endpoint_url=url
        )
        whole = client.converse(modelId=CLAUDE, messages=messages)
        with closing(client.converse_stream(modelId=CLAUDE, messages=messages)["stream"]) as stream:
            events = list(stream)
        client.close()
        return whole, events

    async with FakeBedrock(script, api_key="k") as server:
        whole, events = await asyncio.to_thread(ask, server.url)
        model = BedrockConverse(CLAUDE, api_key="k", base_url=server.url)
        ours = await model.respond(Request([Message("user", "q")]), lambda _event: None)
    assert not server.refused
    [thought, text, use] = whole["output"]["message"]["content"]
    assert thought["reasoningContent"]["reasoningText"]["text"] == "Hm."
    assert text["text"] == ours.message.text == "Grüße"
    [call] = ours.message.tool_calls
    assert (use["toolUse"]["name"], use["toolUse"]["input"]) == (call.name, call.arguments)
    said = [
        e["contentBlockDelta"]["delta"].get("text", "") for e in events if "contentBlockDelta" in e
    ]
    assert "".join(said) == "Grüße"
    assert events[-1]["metadata"]["usage"]["outputTokens"] == ours.usage.output_tokens
