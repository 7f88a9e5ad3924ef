"""The questions are fair: one for each tool, and none that gives its name away."""

from __future__ import annotations

import re

import pytest

from tests.vault.questions import QUESTIONS
from tests.vault.tools import NAMES

_ENDINGS = (
    "ations",
    "ation",
    "ings",
    "ing",
    "ions",
    "ion",
    "ers",
    "er",
    "ies",
    "es",
    "ed",
    "s",
    "e",
    "y",
)


def words(text: str) -> set[str]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return set(re.findall(r"[a-z0-9]+", split.lower()))


def stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def alike(one: str, other: str) -> bool:
    """The same word, the same stem, or one within the other (sheet, spreadsheet)."""
    short, long = sorted((stem(one), stem(other)), key=len)
    return one == other or short == long or (len(short) >= 4 and short in long)


def test_there_is_one_question_for_each_tool() -> None:
    assert len(NAMES) == len(set(NAMES)) == 40
    assert tuple(QUESTIONS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_question_has_no_word_of_the_tools_name(name: str) -> None:
    shared = [(a, b) for a in words(name) for b in words(QUESTIONS[name]) if alike(a, b)]
    assert shared == []


@pytest.mark.parametrize(
    ("one", "other"),
    [("logs", "log"), ("sheets", "spreadsheet"), ("scale", "scaling"), ("refund", "refunds")],
)
def test_words_that_are_alike(one: str, other: str) -> None:
    assert alike(one, other)


def test_words_that_are_not() -> None:
    assert not alike("gmail", "email")
