"""Bytes from a provider that are not what they should be: a right answer or a typed error, in time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.hostile.helpers import Tally, readable, watchdog
from tests.hostile.journal_fuzz import WRONG, paths
from tests.sizes import pick_size
from windlass.errors import BadReply, ModelError
from windlass.models.base import Emit, Request, Response
from windlass.models.transport.sse import MAX_EVENT, SSEDecoder
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.openai.chat import OpenAIChat

ANTHROPIC = AnthropicMessages("claude-test", api_key="k")
OPENAI = OpenAIChat("gpt-test", api_key="k")
WIRES = {"anthropic": ANTHROPIC, "openai": OPENAI}


def _anthropic(blocks: list[Any], stop: str = "end_turn") -> list[Any]:
    """The events of a streamed reply."""
    start = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 5},
    }
    events: list[Any] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 15},
        }
    )
    return [*events, {"type": "message_stop"}]


def _text(*pieces: str) -> Any:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]


def _use(id: str, *pieces: str) -> Any:
    block = {"type": "tool_use", "id": id, "name": "add", "input": {}}
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _thought() -> Any:
    deltas = [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _openai(*deltas: Any, finish: str = "stop") -> list[Any]:
    def chunk(delta: Any, reason: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-test",
            "choices": [choice],
        }

    events = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, finish)]
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 12,
        "total_tokens": 21,
        "cost": 0.001,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    return [
        *events,
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": usage},
    ]


def _call(index: int, id: str | None, *, name: str | None = None, arguments: str = "") -> Any:
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if id is not None:
        call |= {"id": id, "type": "function"}
        call["function"]["name"] = name
    return {"tool_calls": [call]}


STREAMS: dict[str, list[list[Any]]] = {
    "anthropic": [
        _anthropic([_text("Hel", "lo ", "ß 漢字 😀")]),
        _anthropic(
            [_thought(), _text("I add."), _use("toolu_1", '{"a": ', "1}"), _use("toolu_2", "")],
            "tool_use",
        ),
    ],
    "openai": [
        _openai({"content": "Hel"}, {"content": "lo ß"}, {"content": " 漢字 😀"}),
        _openai(
            {"reasoning_content": "hm"},
            {"content": "I add."},
            _call(0, "call_1", name="add"),
            _call(0, None, arguments='{"a": '),
            _call(0, None, arguments="1}"),
            _call(1, "call_2", name="add", arguments="{}"),
            finish="tool_calls",
        ),
    ],
}
BODIES: dict[str, list[Any]] = {
    "anthropic": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "stop_reason": "tool_use",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I add."},
                {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}},
            ],
            "usage": {"input_tokens": 25, "output_tokens": 15},
        },
    ],
    "openai": [
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "gpt-test",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": "I add.",
                        "tool_calls": [
                            {
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "add", "arguments": '{"a": 1}'},
                            }
                        ],
                    },
                }
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
        },
    ],
}


def written(wire: str, events: Iterable[Any]) -> list[bytes]:
    """Each event as bytes."""
    frames: list[bytes] = []
    for event in events:
        name = (
            f"event: {event.get('type')}\n"
            if wire == "anthropic" and isinstance(event, dict)
            else ""
        )
        frames.append(
            f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode(
                "utf-8", "surrogatepass"
            )
        )
    return [*frames, b"data: [DONE]\n\n"] if wire == "openai" else frames


def chunks(rng: random.Random, raw: bytes) -> list[bytes]:
    """The bytes as a network might cut them."""
    match rng.randrange(4):
        case 0:
            return [raw]
        case 1:
            return [raw[at : at + 1] for at in range(len(raw))]
        case 2:
            size = rng.choice([2, 3, 7, 64, 1000])
            return [raw[at : at + size] for at in range(0, len(raw), size)]
        case _:
            cuts = sorted({0, len(raw), *(rng.randrange(len(raw) + 1) for _ in range(10))})
            return [raw[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


def spoilt(rng: random.Random, wire: str) -> bytes:
    """A reply with something wrong."""
    kind = rng.choice(
        ["events", "events", "event", "event", "bytes", "bytes", "body", "random", "odd"]
    )
    if kind == "body":
        body = json.loads(json.dumps(rng.choice(BODIES[wire])))
        for _ in range(rng.choice([1, 2, 5])):
            body = replaced(rng, body)
        return json.dumps(body).encode()
    if kind == "random":
        start = rng.choice(
            [b"", b"data: ", b"event: x\ndata: ", b"{", b"[", b"<html>", b": ", b"\xef\xbb\xbf"]
        )
        return start + rng.randbytes(rng.randrange(200))
    events = json.loads(json.dumps(rng.choice(STREAMS[wire])))
    if kind == "event":
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(events))
            events[at] = replaced(rng, events[at])
        return b"".join(written(wire, events))
    frames = written(wire, events)
    if kind == "events":
        for _ in range(rng.choice([1, 2, 4])):
            at = rng.randrange(len(frames)) if frames else 0
            match rng.randrange(5):
                case 0 if frames:
                    del frames[at]
                case 1:
                    frames.insert(at, rng.choice(frames or [b""]))
                case 2:
                    rng.shuffle(frames)
                case 3:
                    del frames[at:]
                case _:
                    odd = [
                        b": ping\n\n",
                        b"data:\n\n",
                        b"data: {}\n\n",
                        b"data: []\n\n",
                        b"event: error\ndata: {}\n\n",
                        b"data: null\n\n",
                        b"id: 5\nretry: x\n\n",
                        b"\n\n\n",
                        b'data: {"type": 5}\n\n',
                        b'data: {"error": {"message": "no"}}\n\n',
                        b"event: ping\ndata: {\n\n",
                    ]
                    frames.insert(at, rng.choice(odd))
        return b"".join(frames)
    raw = bytearray(b"".join(frames))
    for _ in range(rng.choice([1, 2, 10])):
        at = rng.randrange(len(raw))
        match rng.randrange(5):
            case 0:
                raw[at] ^= 1 << rng.randrange(8)
            case 1:
                del raw[at : at + rng.randrange(1, 60)]
            case 2:
                raw[at:at] = rng.choice(
                    [b"\xff", b"\xed\xa0\x80", b"\xc3", b"\r", b"\n\n", b"\x00", b'"', b"\\ud83d"]
                )
            case 3:
                raw[at:at] = b"[" * 5000
            case _:
                del raw[at:]
        if not raw:
            break
    return bytes(raw)


def replaced(rng: random.Random, value: Any) -> Any:
    """Plain data with one place that holds something else, or nothing."""
    places = paths(value)
    if not places:
        return rng.choice(WRONG)
    *way, last = rng.choice(places)
    node = value
    for step in way:
        node = node[step]
    if isinstance(node, dict) and rng.random() < 0.3:
        del node[last]
    else:
        wrong = rng.choice([*WRONG, 10**400, "x" * 10_000, "\ud83d", '{"a"', "[" * 3000])
        node[last] = json.loads(json.dumps(wrong))  # its own, or it might come to hold itself
    return value


def decoded(model: HttpModel, pieces: Iterable[bytes]) -> Response | ModelError:
    seen: list[Any] = []
    decoder = model.decoder(Request([]), seen.append)
    try:
        for piece in pieces:
            decoder.feed(piece)
            if decoder.done:
                break
        response = decoder.finish()
    except ModelError as error:
        str(error).encode()
        return error
    msgspec.json.decode(msgspec.json.encode(response), type=Response)  # a journal can hold it
    for other in WIRES.values():
        json.loads(b"".join(other.encode(Request([response.message]))))  # and it can be sent on
    for event in seen:
        msgspec.json.encode(event)
    return response


def sweep(wire: str, count: int, seed: int) -> None:
    met = Tally(f"bytes of {wire}")
    model = WIRES[wire]
    rng = random.Random(f"{wire} {seed}")
    right = [decoded(model, [b"".join(written(wire, events))]) for events in STREAMS[wire]]
    assert all(isinstance(one, Response) for one in right)
    for number in range(count):
        if number % 4 == 0:  # as it should be, however it is cut
            at = rng.randrange(len(right))
            pieces = chunks(rng, b"".join(written(wire, STREAMS[wire][at])))
            answer = decoded(model, pieces)
            assert answer == right[at]
            met.valid("Response")
            continue
        raw = spoilt(rng, wire)
        pieces = chunks(rng, raw)
        try:
            with watchdog(raw):
                answer = decoded(model, pieces)
                whole = decoded(model, [raw])
        except AssertionError:
            raise
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__} for {raw!r:.2000}") from error
        assert type(answer) is type(whole), f"cut otherwise it reads otherwise: {raw!r:.2000}"
        met.invalid(type(answer).__name__)
    met.report(count)


@pytest.mark.parametrize("wire", WIRES)
def test_spoilt_bytes(wire: str) -> None:
    sweep(wire, 2500, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("wire", WIRES)
def test_many_spoilt_bytes(wire: str) -> None:
    """`make prove-hostile`: 20,000 on each wire."""
    for seed in range(2, pick_size(3, 6, proof="HOSTILE")):
        sweep(wire, 5000, seed)


# --------------------------------------------------------------------------- too much of it


@pytest.mark.parametrize("wire", WIRES)
def test_giants(wire: str) -> None:
    """Endless events, bodies and nesting: refused or read, within a second of work."""
    model = WIRES[wire]
    deep = "[" * 100_000 + "]" * 100_000
    long = json.dumps("x" * 10_000_000)
    texts = {
        "anthropic": '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}',
        "openai": '{"choices":[{"index":0,"delta":{"content":%s}}]}',
    }
    for value in (
        deep,
        long,
        "9" * 100_000,
        "1e99999",
        '{"a":' * 50_000,
        '"' + "\\ud83d" * 100_000 + '"',
    ):
        frames = written(wire, STREAMS[wire][0])
        frames.insert(3, f"data: {texts[wire] % value}\n\n".encode())
        with watchdog(value[:40]):
            decoded(model, frames)
    many = b"".join([b": ping\n\n"] * 100_000)
    with watchdog("a hundred thousand comments"):
        assert isinstance(decoded(model, [many]), ModelError)
    tiny = texts[wire] % '"a"'
    frames = written(wire, STREAMS[wire][0])
    frames[3:3] = [f"data: {tiny}\n\n".encode()] * 20_000
    with watchdog("twenty thousand deltas"):
        answer = decoded(model, frames)
    assert isinstance(answer, Response) and len(answer.message.text) > 20_000


def test_an_event_without_end() -> None:
    decoder = SSEDecoder()
    piece = b"data: " + b"x" * (1 << 20)
    with pytest.raises(BadReply, match="more than"), watchdog("an event without end"):
        for _ in range(MAX_EVENT // len(piece) + 2):
            decoder.feed(piece)


# --------------------------------------------------------------------------- through a run


class Spoilt(AnthropicMessages):
    """A model behind a wire on which something happens to the bytes."""

    remote = False

    def __init__(self, replies: list[bytes]) -> None:
        super().__init__("claude-test", api_key="k")
        self.replies = replies

    async def respond(self, request: Request, emit: Emit) -> Response:
        b"".join(self.encode(request))
        decoder = self.decoder(request, emit)
        if self.replies:
            decoder.feed(self.replies.pop(0))
        else:
            decoder.feed(b"".join(written("anthropic", STREAMS["anthropic"][0])))
        return decoder.finish()


@w.tool(side_effect_level="read_only")
async def add(a: int = 0) -> int:
    """Add."""
    return a + 1


async def test_runs_over_a_spoilt_wire() -> None:
    met = Tally("runs over a spoilt wire")
    rng = random.Random(5)
    for number in range(400):
        good = b"".join(written("anthropic", STREAMS["anthropic"][1]))
        replies = [good if number % 4 == 0 else spoilt(rng, "anthropic")]
        if rng.random() < 0.5:
            replies.insert(0, good)
        session_id = f"s{number}"
        with watchdog(replies):
            out = await w.Agent(Spoilt(replies), tools=[add], max_turns=5).run(
                "go", session_id=session_id
            )
        await readable(out._run.store, session_id)
        kind = (out.error or {}).get("kind") or out.status
        if number % 4 == 0:
            assert out.status == "done", out.error
            met.valid(kind)
        else:
            assert out.status in ("done", "provider_error", "budget_exhausted"), out.error
            met.invalid(kind)
    met.report(400)
