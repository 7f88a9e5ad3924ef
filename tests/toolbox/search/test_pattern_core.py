"""The piece of a pattern that is looked for first: what is found is what `re` finds line by line."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from tests.toolbox.search.random_trees import find_lines
from windlass.toolbox.search.line_search import LineSearch
from windlass.toolbox.search.pattern_facts import compile_core

_CHARS = "ab_1(\u00e9 \n"
_ATOMS = r"a b _ 1 \( [ab] \d \w . _\d (_) (?:a_) (?i:b) (?i:\b) (?s:.) \b ^ $ é (a|_) [^a]".split()
_COUNTS = ("", "", "", "+", "*", "?", "{2}", "{1,2}", "{2,}", "+?", "{0,3}")
_NO_CORE = [r"_", r"[0-9]{7}", r"_?1", r"(?i)_1", r"(?:_1|b)", r"_(?i:b)", r"(?:_1)*"]


@pytest.mark.parametrize(
    ("pattern", "core"), [(r"[a-z]+_[0-9]{7,}\b", "_1234567"), (r"\w(_)\d", "_1")]
)
def test_core_is_a_text_with_what_must_follow_it(pattern: str, core: str):
    search = compile_core(pattern, 0)
    assert search is not None and search(core) and not search("_") and not search(core[1:])


@pytest.mark.parametrize("pattern", _NO_CORE)
def test_core_is_not_guessed_where_the_text_may_be_missing(pattern: str):
    assert compile_core(pattern, 0) is None


@pytest.mark.parametrize("seed", range(20))
def test_lines_by_core_are_those_of_re(seed: int, tmp_path: Path):
    rng = random.Random(seed)
    file = tmp_path / "file"
    compared = 0
    while compared < 60:
        pattern = "".join(
            [rng.choice(_ATOMS) + rng.choice(_COUNTS) for _ in range(rng.randint(2, 5))]
        )
        try:
            re.compile(pattern)
        except re.error:
            continue
        compared += 1
        data = "".join(rng.choices(_CHARS, k=400)).encode()
        file.write_bytes(data)
        opened = os.open(file, os.O_RDONLY)
        try:
            found = LineSearch(pattern, ignore_case=False).find_in(opened, len(data))
            lines = [(line.number, line.text) for group in found for line in group]
        finally:
            os.close(opened)
        assert lines == find_lines(data, pattern, ignore_case=False), pattern
