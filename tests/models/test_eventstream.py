"""Amazon's event stream: the same frames however the bytes were cut, and never a damaged one."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import BadReply
from windlass.models.transport.eventstream import EventStreamDecoder
from windlass.testing.providers.bedrock import encode_frame

FRAMES = [
    encode_frame(b'{"role":"assistant"}', event_type="messageStart", message_type="event"),
    encode_frame(b"", event_type="empty", message_type="event"),
    encode_frame('{"text":"Zürich 🌦"}'.encode(), event_type="contentBlockDelta"),
    encode_frame(
        b'{"message":"slow down"}', exception_type="throttlingException", message_type="exception"
    ),
    encode_frame(b"", error_code="500", error_message="it broke", message_type="error"),
]
NAMES = [
    "messageStart",
    "empty",
    "contentBlockDelta",
    "exception:throttlingException",
    "error:it broke",
]


def read(decoder: EventStreamDecoder, chunk: bytes) -> list[tuple[str, bytes]]:
    """Read a chunk as the wire does."""
    frame = decoder.take(chunk)
    return decoder.feed(chunk) if frame is None else [frame]


def names(*chunks: bytes) -> list[str]:
    decoder = EventStreamDecoder()
    return [name for chunk in chunks for name, _ in read(decoder, chunk)]


def test_frames_have_names_and_payloads() -> None:
    assert names(b"".join(FRAMES)) == NAMES
    [(_, payload)] = EventStreamDecoder().feed(FRAMES[2])
    assert payload.decode() == '{"text":"Zürich 🌦"}'


@given(st.lists(st.binary(max_size=300), max_size=6), st.lists(st.integers(0, 3000), max_size=20))
def test_any_split_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(
        [encode_frame(payload, event_type="x", message_type="event") for payload in payloads]
    )
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    decoder = EventStreamDecoder()
    found = [
        payload
        for a, b in zip(edges, edges[1:], strict=False)
        for _, payload in read(decoder, raw[a:b])
    ]
    assert found == payloads


def test_frame_like_one_before_is_taken_whole() -> None:
    decoder = EventStreamDecoder()
    assert decoder.take(FRAMES[2]) is None  # nothing is known of it yet
    [frame] = decoder.feed(FRAMES[2])
    assert decoder.take(FRAMES[2]) == frame
    assert decoder.take(FRAMES[2][:-1]) is None
    assert decoder.take(FRAMES[2] + b"\x00") is None
    assert decoder.feed(FRAMES[0][:20]) == []
    assert decoder.take(FRAMES[2]) is None  # it is in the middle of another


@given(st.integers(0, len(FRAMES[2]) - 1), st.integers(1, 255))
def test_damage_is_found_in_a_frame_like_one_before(at: int, change: int) -> None:
    decoder = EventStreamDecoder()
    decoder.feed(FRAMES[2])
    damaged = bytearray(FRAMES[2])
    damaged[at] ^= change
    assert decoder.take(bytes(damaged)) is None
    if at >= 12:  # else it may say that more is to come
        with pytest.raises(BadReply):
            decoder.feed(bytes(damaged))


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.integers(1, 40))
def test_botocore_reads_the_same(payloads: list[bytes], size: int) -> None:
    stream = pytest.importorskip("botocore.eventstream")
    raw = b"".join([encode_frame(p, event_type="x", content_type="t") for p in payloads])
    theirs = stream.EventStreamBuffer()
    theirs.add_data(raw)
    ours = EventStreamDecoder()
    found = [pair for at in range(0, len(raw), size) for pair in ours.frames(raw[at : at + size])]
    assert found == [(event.headers, event.payload) for event in theirs]


def header(name: str, kind: int, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name.encode() + bytes([kind]) + value


def with_headers(described: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(described), len(described))
    frame = prelude + struct.pack(">I", crc32(prelude)) + described
    return frame + struct.pack(">I", crc32(frame))


def test_headers_of_every_type() -> None:
    described = b"".join(
        [
            header("t", 0, b""),
            header("f", 1, b""),
            header("byte", 2, b"\xff"),
            header("short", 3, b"\x00\x02"),
            header("int", 4, b"\x00\x00\x00\x03"),
            header("long", 5, b"\x00" * 7 + b"\x04"),
            header("bytes", 6, b"\x00\x02hi"),
            header("words", 7, b"\x00\x03" + "ü!".encode()),
            header("time", 8, b"\x00" * 7 + b"\x05"),
            header("uuid", 9, bytes(range(16))),
        ]
    )
    [(headers, payload)] = EventStreamDecoder().frames(with_headers(described))
    assert payload == b""
    assert headers == {
        "t": True,
        "f": False,
        "byte": -1,
        "short": 2,
        "int": 3,
        "long": 4,
        "bytes": b"hi",
        "words": "ü!",
        "time": 5,
        "uuid": bytes(range(16)),
    }


@pytest.mark.parametrize(
    "described",
    [header("x", 10, b""), header("x", 7, b"\x00\x09ab"), header("x", 5, b"\x00"), b"\x05ab"],
)
def test_headers_that_cannot_be_read(described: bytes) -> None:
    with pytest.raises(BadReply, match="headers"):
        EventStreamDecoder().frames(with_headers(described))


def test_a_flipped_bit_anywhere_is_found() -> None:
    raw = FRAMES[0]
    for at in range(len(raw)):
        damaged = raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :]
        decoder = EventStreamDecoder()
        with pytest.raises(BadReply):
            decoder.feed(damaged)


def test_what_is_no_event_stream_is_given_up_at_once() -> None:
    with pytest.raises(BadReply, match="no event stream"):
        EventStreamDecoder().feed(b"<!doctype html>")
    huge = struct.pack(">II", 2**31, 0)
    with pytest.raises(BadReply, match="2,147,483,648"):
        EventStreamDecoder().feed(huge + struct.pack(">I", crc32(huge)))
    short = struct.pack(">II", 15, 0)
    with pytest.raises(BadReply, match="15 bytes"):
        EventStreamDecoder().feed(short + struct.pack(">I", crc32(short)))
