"""Estimates of tokens, compared with what tokenizers and providers really counted.

`token_counts.json` holds texts and their tokens by two byte-level tokenizers: one of 131,000 tokens,
as large as those of today's models, and an early one of 32,000.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.messages import ToolSpec, characters, weigh_text
from windlass.models import estimates
from windlass.models.base import Frame, Request, Settings
from windlass.models.estimates import estimate_reply, estimate_request, weigh_frame

COUNTS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "token_counts.json").read_text())
FACTOR = 1.5  # as docs/guides/cost.md says


@pytest.mark.parametrize("counted", COUNTS, ids=lambda counted: counted["kind"])
def test_no_script_takes_much_more_than_its_estimate(counted: dict[str, Any]):
    estimate = weigh_text(counted["text"]) / 4
    assert estimate >= counted["large_vocabulary"] / FACTOR
    if counted["kind"] not in ("xs", "newlines", "math"):
        assert estimate >= counted["small_vocabulary"] / FACTOR / 1.1


@pytest.mark.parametrize("counted", COUNTS, ids=lambda counted: counted["kind"])
def test_no_estimate_is_absurd(counted: dict[str, Any]):
    if counted["kind"] not in ("spaces", "newlines"):
        assert weigh_text(counted["text"]) / 4 <= counted["large_vocabulary"] * 4


def test_plain_words_are_a_quarter_of_their_characters():
    words = "the quick brown fox jumps over the lazy dog and runs into the wood " * 20
    assert weigh_text(words) == len(words)
    assert w.estimate_tokens(words) == -(-len(words) // 4)


def test_half_characters_are_weighed_too():
    assert weigh_text("\ud83d" * 100) > 0


def test_everything_that_is_sent_counts():
    plain = Request((w.Message("user", "hi"),))
    spec = ToolSpec("look", "Look around. " * 20, {"type": "object", "properties": {}})
    schema = {"type": "object", "properties": {"a" * 40: {"type": "string"}}}
    picture = w.Message("user", (w.Image(url="https://example.com/a.png"),))
    document = w.Message("user", (w.Document(data="QUJD" * 40_000),))
    bigger = [
        Request(plain.messages, Frame("Be kind. " * 20)),
        Request(plain.messages, Frame(None, (spec,))),
        Request(plain.messages, Frame(settings=Settings(schema=schema))),
        Request(plain.messages, tail=(w.Message("user", "remember this " * 4),)),
        Request((*plain.messages, picture)),
        Request((*plain.messages, document)),
    ]
    for request in bigger:
        assert estimate_request(request) > estimate_request(plain) + 10
    assert characters((picture,)) // 4 == 1600
    assert characters((document,)) > characters((picture,))


def test_a_frame_is_weighed_once():
    frame = Frame("Be kind. " * 20)
    first = weigh_frame(frame)
    assert id(frame) in estimates._frames
    assert weigh_frame(frame) == first
    key = id(frame)
    del frame
    assert key not in estimates._frames
    assert weigh_frame(Frame("Be kind. " * 40)) > first


FOLDER = os.environ.get("WINDLASS_WIRE_DIR")


@pytest.mark.skipif(FOLDER is None, reason="WINDLASS_WIRE_DIR is not set")
def test_replies_of_real_providers_are_not_much_longer_than_their_estimate():
    from .test_recorded import body_of, exchanges, model_for

    compared = 0
    for param in exchanges():
        entry: Any = param.values[0]
        reply, body = body_of(entry)
        if not 200 <= reply.get("status", 200) < 300:
            continue
        decoder = model_for(entry).decoder(Request((w.Message("user", "x"),)), lambda _: None)
        try:
            decoder.feed(body)
            response = decoder.finish()
        except w.ModelError:
            continue
        if any(isinstance(block, w.Opaque) for block in response.message.content):
            continue  # a provider's own tools: nobody can tell who wrote what
        usage = response.usage
        said = (
            usage.output_tokens - usage.reasoning_tokens
        )  # thoughts that nobody sees are not here
        compared += 1
        assert estimate_reply(response.message) >= said / FACTOR - 40, entry["file"]
    assert compared > 40
