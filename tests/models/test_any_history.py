"""Any legal history, whoever made it, is a request that every provider takes.

The model's turns are made by the wires themselves, from replies of their fakes, so that all the
state that rides along is of the real kind; what is sent is held against the provider's rules.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stories.wire_fakes import servers
from windlass.messages import Document, Image, Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, silent
from windlass.models.history import audit
from windlass.models.wires.base import HttpModel
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.testing.providers import (
    Asked,
    FakeServer,
    Rejected,
    Reply,
)

DOORS: dict[str, tuple[FakeServer, HttpModel]] = {
    wire: (server, make(f"http://127.0.0.1:1{server.base}"))
    for wire, (server, make) in servers("ok").items()
}
for _server, _model in DOORS.values():
    _server.api_key = None

PNG = "iVBORw0KGgoAAAANSUhEUg=="
NAMES = ("add", "shop.look:up", "7seas", "mcp__server__tool", "x" * 100)
TOOLS = tuple(
    ToolSpec(name, "d", {"type": "object", "properties": {"a": {"const": 1}}}) for name in NAMES
)


def asked_of(model: HttpModel, request: Request) -> Asked:
    """The request as it would arrive."""
    body = b"".join(model.encode(request))
    url = model.url
    if isinstance(model, GeminiGenerate):
        url = model.asks(stream=request.settings.stream)
    parts = urlsplit(url)
    return Asked(0, "POST", parts.path, model._headers(), body, json.loads(body), 0, parts.query)


PLAIN = Request([Message("user", "q")], Frame(None, TOOLS, Settings(stream=False, max_tokens=9)))


def made_by(wire: str, reply: Reply) -> Message:
    """A turn as this wire reads it from its provider."""
    server, model = DOORS[wire]
    known = {ours: name for name, ours in model.encode_frame(PLAIN.frame).names.items()}
    calls = [(known.get(name, name), arguments) for name, arguments in reply.tool_calls]
    reply = msgspec.structs.replace(reply, tool_calls=calls)
    decoder = model.decoder(PLAIN, silent)
    decoder.feed(msgspec.json.encode(server.plain(asked_of(model, PLAIN), reply)))
    return decoder.finish().message


# --------------------------------------------------------------------------- histories

WORDS = st.one_of(
    st.sampled_from(["", " ", "\n", "hi", "ü – 東京 🌦", '{"a": 1}', "{broken", "\x00", "</x>"]),
    st.text(max_size=8),
)
MEDIA = st.sampled_from(
    [
        Image(data=PNG),
        Image(url="https://x/y.png"),
        Image(url=f"data:image/png;base64,{PNG}"),
        Document("aGk=", "text/plain", title="T"),
        Document("JVBERi0=", "application/pdf", title="My § file.pdf"),
        Document(url="https://x/y.pdf"),
    ]
)
SPOKEN = st.one_of(WORDS.map(Text), MEDIA)
SAID = st.lists(SPOKEN, min_size=1, max_size=3).map(tuple)
CALLS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([{}, {"a": 1}, {"a": [None, "ü"]}])),
    max_size=3,
)
RESULTS = st.one_of(WORDS, st.lists(SPOKEN, max_size=2).map(tuple))


@st.composite
def turns(draw: st.DrawFn, number: int, long: int) -> list[Message]:
    """What a user, or several, said; what a model made of it; and what its tools answered."""
    out = [Message("user", draw(SAID)) for _ in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        out.append(Message("system", draw(WORDS)))
    kind = draw(st.sampled_from([*DOORS, "nobody", "cut off"]))
    thought = draw(st.sampled_from(["", "hm – ü"]))
    calls = draw(CALLS)
    if kind in DOORS:
        text = draw(WORDS) if calls else draw(st.sampled_from(["hi", "ü 🌦", " "]))
        model = made_by(kind, Reply(text, thought, calls))
    else:
        blocks: list[Any] = [Text(draw(WORDS))] if draw(st.booleans()) else []
        raw = '{"a": ' if kind == "cut off" else None
        blocks += [ToolCall("", name, {} if raw else args, raw) for name, args in calls]
        model = Message("assistant", tuple(blocks))
    ids = draw(st.sampled_from(["call_%d_%d", "toolu_%d%d", "%d", "€ %d %d", "x" * long + "%d-%d"]))
    content: list[Any] = []
    answers: list[Any] = []
    for block in model.content:
        if type(block) is ToolCall:
            at = f"{number}_{len(answers)}" if ids == "%d" else ids % (number, len(answers))
            block = msgspec.structs.replace(block, id=at)
            answers.append(ToolResult(at, draw(RESULTS), draw(st.booleans()), block.name))
        content.append(block)
    out.append(Message("assistant", tuple(content)))
    if answers:
        also = draw(st.lists(WORDS.map(Text), max_size=1))
        out.append(Message("tool", (*answers, *also)))
    return out


@st.composite
def histories(draw: st.DrawFn, long: int) -> list[Message]:
    begin = [Message("system", "Be kind.")] if draw(st.booleans()) else []
    begin.append(Message("user", "start"))
    count = draw(st.integers(0, 4))
    middle = [m for number in range(count) for m in draw(turns(number, long))]
    if middle and middle[-1].role == "tool" and draw(st.booleans()):
        return [*begin, *middle]
    return [*begin, *middle, Message("user", draw(st.sampled_from(["and now?", "ü 🌦", ""])))]


@pytest.mark.parametrize("wire", DOORS)
@settings(max_examples=int(os.environ.get("WINDLASS_EXAMPLES", "70")))
@given(
    data=st.data(),
    system=st.sampled_from([None, "", "Be brief."]),
    tools=st.sampled_from([(), TOOLS]),
    stream=st.booleans(),
    thinking=st.sampled_from([None, True, False, {"effort": "low"}, {"budget_tokens": 2048}]),
    tail=st.sampled_from([(), (Message("user", "It is 12:00."),)]),
)
def test_every_provider_takes_it(
    wire: str, data: st.DataObject, system: Any, tools: Any, stream: bool, thinking: Any, tail: Any
) -> None:
    # a router takes ids of any length; what its fake says of them is OpenAI's rule
    history = data.draw(histories(30 if wire == "openrouter" else 70))
    assert not audit(history, tail=tail)
    server, model = DOORS[wire]
    if not model.caps.thinking:
        thinking = None
    frame = Frame(system, tools, Settings(max_tokens=9000, stream=stream, thinking=thinking))
    asked = asked_of(model, Request(history, frame, tail))
    try:
        server.check(asked)
    except Rejected as problem:
        pytest.fail(f"{wire} refuses it: {problem.message}\n{json.dumps(asked.json)[:3000]}")
