"""Globs over paths: what they mean, and that none of them takes for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.policies.skills.globs import Glob, tidy


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("infra/**", "infra/a/b.tf", True),
        ("infra/**", "infra", False),
        ("infra/*", "infra/a.tf", True),
        ("infra/*", "infra/a/b.tf", False),
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**.py", "src/a.py", True),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/xb", False),
        ("**/a/b", "a/a/b", True),
        ("**", "any/thing", True),
        ("**", "", True),
        ("", "", True),
        ("", "a", False),
        ("Dockerfile", "Dockerfile", True),
        ("Dockerfile", "x/Dockerfile", False),
        ("?.md", "a.md", True),
        ("?.md", "/.md", False),
        ("[ab].md", "a.md", True),
        ("[!ab].md", "a.md", False),
        ("[!ab].md", "c.md", True),
        ("[a-c]x", "bx", True),
        ("[", "[", True),
        ("[a", "[a", True),
        ("a]b", "a]b", True),
        ("[]]x", "]x", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("{a,{b,c}}", "c", True),
        ("{a}", "{a}", True),
        ("a{b", "a{b", True),
        ("./src/*", "src/a", True),
        ("A", "a", False),
        ("a.b", "axb", False),
        ("**/", "a/", True),
    ],
)
def test_what_fits(pattern: str, path: str, fits: bool):
    assert Glob(pattern).matches(path) is fits


def test_paths_are_tidied():
    assert [tidy(p) for p in (".\\a\\b", "././x", "a/./b")] == ["a/b", "x", "a/./b"]


@given(st.text("ab/*?", max_size=12), st.text("ab/", max_size=12))
@settings(max_examples=600, deadline=None)
def test_it_agrees_with_a_regular_expression(pattern: str, path: str):
    written = ""
    for piece in re.split(r"((?:(?<=/)|^)\*\*+/|\*\*+|\*|\?)", pattern.removeprefix("./")):
        if piece.startswith("**"):
            written += "(?:|.*/)" if piece.endswith("/") else ".*"
        else:
            written += {"*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    assert Glob(pattern).matches(path) is bool(re.fullmatch(written, path)), written


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 200 + "b",
        "**a" * 150 + "b",
        "**/" * 150 + "x",
        "*" * 500,
        "**a*a" * 80 + "b",
        "?*" * 200 + "b",
        "[a]*" * 100 + "b",
    ],
)
def test_no_pattern_takes_for_ever(pattern: str):
    assert Glob(pattern).matches("a" * 1000) is (set(pattern) == {"*"})
    assert Glob(pattern).matches("a/" * 500) is (pattern == "*" * 500)


@pytest.mark.parametrize("pattern", ["{a,b}" * 9, "{a,b,{c,d}}" * 20, "x" * 513, "[\u0001-\uffff]"])
def test_what_would_explode_is_refused(pattern: str):
    with pytest.raises(ValueError):
        Glob(pattern)


def test_a_path_that_is_no_path_fits_nothing():
    assert not Glob("**").matches("x" * 5000)
