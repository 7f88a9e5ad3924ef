"""The SSE decoder: the same events however the bytes were cut, and none that did not end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import BadReply
from windlass.models.transport.sse import SSEDecoder

Events = list[tuple[str, bytes]]


def decoded(*chunks: bytes) -> Events:
    decoder = SSEDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


names = st.sampled_from(["", "error", "ping", "message_start"])
lines = st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), max_size=12)
events = st.lists(st.tuples(names, st.lists(lines, min_size=1, max_size=3)), max_size=6)
newlines = st.sampled_from(["\n", "\r", "\r\n"])


@given(events, newlines, st.booleans(), st.lists(st.integers(0, 400), max_size=12), st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(
    sent: list[tuple[str, list[str]]], end: str, bom: bool, cuts: list[int], data: st.DataObject
) -> None:
    text = "\ufeff" if bom else ""
    for name, values in sent:
        if data.draw(st.booleans()):
            text += f": a comment{end}{end}"
        text += f"event: {name}{end}" if name else ""
        text += "".join(f"data: {value}{end}" for value in values) + end
    raw = text.encode()
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    chunks = [raw[a:b] for a, b in zip(places, places[1:], strict=False)]
    expected = [(name, "\n".join(values).encode()) for name, values in sent]
    assert decoded(*chunks) == expected
    assert decoded(*(bytes([byte]) for byte in raw)) == expected


def test_line_ends_may_be_mixed() -> None:
    assert decoded(b"data: a\r\rdata: b\n\ndata: c\r\n\r\n") == [("", b"a"), ("", b"b"), ("", b"c")]


def test_a_carriage_return_ends_an_event_without_waiting_for_more() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\r\n\r") == [("", b"a")]
    assert decoder.feed(b"\ndata: b\r\n\r\n") == [("", b"b")]


def test_comments_are_no_events() -> None:
    assert decoded(b": OPENROUTER PROCESSING\n\n:\n\n\n\n") == []


def test_an_event_that_did_not_end_is_not_dispatched() -> None:
    assert decoded(b"data: whole\n\ndata: half") == [("", b"whole")]
    assert decoded(b"data: half\n") == []


def test_fields() -> None:
    assert decoded(b"data:no space\n\n") == [("", b"no space")]
    assert decoded(b"data:  two\n\n") == [("", b" two")]
    assert decoded(b"data\n\n") == [("", b"")]
    assert decoded(b"data: a\ndata:\ndata: b\n\n") == [("", b"a\n\nb")]
    assert decoded(b"id: 7\nretry: 5\nevent: x\nunknown: y\ndata: z\n\n") == [("x", b"z")]
    assert decoded(b"event: nothing\n\ndata: d\n\n") == [("", b"d")]


def test_a_character_split_between_chunks_is_whole() -> None:
    raw = "data: 🦫é\n\n".encode()
    assert decoded(raw[:8], raw[8:9], raw[9:]) == [("", "🦫é".encode())]


def test_only_a_leading_mark_is_stripped() -> None:
    assert decoded(b"\xef", b"\xbb", b"\xbfdata: a\n\ndata: \xef\xbb\xbf\n\n") == [
        ("", b"a"),
        ("", b"\xef\xbb\xbf"),
    ]
    assert decoded(b"\xef\xbb", b"data: a\n\n") == []  # not a mark: an unknown field


def test_an_endless_event_is_refused() -> None:
    decoder = SSEDecoder(limit=100)
    with pytest.raises(BadReply, match="100 bytes"):
        for _ in range(30):
            decoder.feed(b"data: xxxx")


def test_many_events_in_a_row_are_no_long_event() -> None:
    decoder = SSEDecoder(limit=100)
    assert sum(len(decoder.feed(b"data: " + b"x" * 50 + b"\n\ndata: ")) for _ in range(50)) == 50
