"""A stream holds back no more than what may be the beginning of a secret."""

from __future__ import annotations

import pytest

from windlass.redaction.redactor import MARK, Redactor

KEY = "sk-ant-0123456789abcdef"


@pytest.mark.parametrize("cut", range(1, len(KEY)))
def test_a_secret_cut_in_two_is_never_shown(cut: int):
    stream = Redactor([KEY]).stream()
    assert stream.feed(f"key: {KEY[:cut]}") == "key: "
    assert stream.feed(KEY[cut:] + " done") == f"{MARK} done"
    assert stream.flush() == ""


def test_a_secret_letter_by_letter():
    stream = Redactor([KEY]).stream()
    shown = [stream.feed(letter) for letter in f"a{KEY}b"]
    assert "".join(shown) == f"a{MARK}b"
    assert shown[0] == "a"


def test_ordinary_text_passes_at_once():
    stream = Redactor([KEY]).stream()
    for piece in ("Hello", ", ", "how are you? ", "x" * 10_000, ""):
        assert stream.feed(piece) == piece
    assert stream.flush() == ""


def test_a_false_beginning_is_shown_as_soon_as_it_is_one():
    stream = Redactor([KEY]).stream()
    assert stream.feed("ask sk-ant") == "ask "
    assert stream.feed(" colony") == "sk-ant colony"


def test_the_held_tail_comes_at_the_end():
    stream = Redactor([KEY]).stream()
    assert stream.feed("ask s") == "ask "
    assert stream.flush() == "s"
    assert stream.flush() == ""


def test_a_secret_that_overlaps_itself_or_begins_another():
    overlap = Redactor(["abaXaba"]).stream()
    assert overlap.feed("abaXaba") + overlap.feed("Xaba") + overlap.flush() == f"{MARK}Xaba"
    nested = Redactor(["abcdef", "abcdefghi"]).stream()
    assert nested.feed("abcdef") == ""  # may still become the longer one
    assert nested.feed("ghi!") == f"{MARK}!"
    assert nested.feed("abcdef!") == f"{MARK}!"


def test_a_secret_learned_on_the_way_counts_from_then_on():
    redactor = Redactor()
    stream = redactor.stream()
    assert stream.feed("early ") == "early "
    redactor.add(KEY)
    assert stream.feed(KEY[:5]) == ""
    assert stream.feed(KEY[5:]) == MARK
