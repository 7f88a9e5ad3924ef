"""The head of a SKILL.md: what people write there, and what others would do harm with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.policies.skills.frontmatter import LARGEST, BadFrontmatter, read, split


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("name: pdf", {"name": "pdf"}),
        ("name: pdf # its name", {"name": "pdf"}),
        ("name:   pdf  ", {"name": "pdf"}),
        ("a: x#y", {"a": "x#y"}),
        ("a:", {"a": None}),
        ("a: ~", {"a": None}),
        ("a: null", {"a": None}),
        ("a: 1.0\nb: yes\nc: 2020-01-01", {"a": "1.0", "b": "yes", "c": "2020-01-01"}),
        ("a: Use when: asked: now", {"a": "Use when: asked: now"}),
        ("a: http://x:80/y", {"a": "http://x:80/y"}),
        ("'a b': c\n\"d\": e", {"a b": "c", "d": "e"}),
        ('a: "x: #y \\"z\\" \\n \\u00e9 \\x41"', {"a": 'x: #y "z" \n é A'}),
        ("a: 'it''s' # so", {"a": "it's"}),
        ('a: "one\n  two\n\n  three"', {"a": "one two\nthree"}),
        ("a: one\n  two\n  three # so\nb: c", {"a": "one two three", "b": "c"}),
        ("a: one\n\n  two\nb: c", {"a": "one\ntwo", "b": "c"}),
        ("a: |\n  one\n    two\n\n  three\nb: c", {"a": "one\n  two\n\nthree\n", "b": "c"}),
        ("a: |-\n  one\n  two\n", {"a": "one\ntwo"}),
        ("a: |+\n  one\n\n", {"a": "one\n\n\n"}),
        ("a: >\n  one\n  two\n\n  three\n", {"a": "one two\nthree\n"}),
        ("a: >-\n  one\n  two", {"a": "one two"}),
        ("a: >2\n    one", {"a": "  one\n"}),
        ("a: |\nb: c", {"a": "", "b": "c"}),
        ("a: | # text\n  # no comment", {"a": "# no comment\n"}),
        ("a:\n  - x\n  - y: z\n    w: v\n  -\n    - q", {"a": ["x", {"y": "z", "w": "v"}, ["q"]]}),
        ("a:\n- x\n- Bash(git:*)\nb: c", {"a": ["x", "Bash(git:*)"], "b": "c"}),
        ("a: [x, 'y, z', [q], {k: v}] # so", {"a": ["x", "y, z", ["q"], {"k": "v"}]}),
        ("a: [x,\n  y,\n]\nb: c", {"a": ["x", "y"], "b": "c"}),
        ("a: []\nb: {}", {"a": [], "b": {}}),
        ("a: [x, # first\n  'y # z', # second\n]\nb: c", {"a": ["x", "y # z"], "b": "c"}),
        ("a: {x: 1, y: 'b c'}", {"a": {"x": "1", "y": "b c"}}),
        (
            "metadata:\n  author: me\n  deep:\n    er: x",
            {"metadata": {"author": "me", "deep": {"er": "x"}}},
        ),
        ("a: *\nb: * x", {"a": "*", "b": "* x"}),
        ("a: @x\nb: `y`\nc: %z", {"a": "@x", "b": "`y`", "c": "%z"}),
        ("ключ: значение 中文", {"ключ": "значение 中文"}),
        ("a:\n  - - x\n    - y", {"a": [["x", "y"]]}),
        ("a: - x", {"a": "- x"}),
        ("a: don't # say", {"a": "don't"}),
    ],
)
def test_what_is_read(head: str, found: dict[str, Any]):
    assert read(head) == found


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("a: &x 1\nb: *x", "line 2: anchors"),
        ("a: 1\nb: *x", "line 3: anchors"),
        ("a: !!python/x y", "tags"),
        ("a: [*x]", "anchors"),
        ("a: x\na: y", "line 3: 'a' is there twice"),
        ("just words", "keys with values"),
        ("- a\n- b", "keys with values"),
        ("a:\n  b: c\n    d: e\n x: y", "belongs|set in"),
        ("a: 'x", "never ends"),
        ('a: "x\n\n', "never ends"),
        ("a: [x, y", "never ends"),
        ("a: {x: [", "never ends"),
        ("a:\n\t- x", "tabs"),
        ('a: "x" y', "behind a quoted"),
        ("a: [x] y", "behind"),
        ("? a\n: b", "key"),
        ('a: "\\ud800"', "no character"),
        ('a: "\\xzz"', "no character"),
        ("a: [x]]", "behind"),
        ("a: " + "[" * 50 + "]" * 50, "within each other"),
        ("a: [,]", "well formed"),
        ("\n".join("  " * n + "a:" for n in range(40)), "within each other"),
        ("a: [}", "well formed|never ends"),
        ("a: " + "x" * LARGEST, "more than"),
        ("\n" * 2000, "lines"),
    ],
)
def test_what_is_refused_in_words(head: str, words: str):
    with pytest.raises(BadFrontmatter, match=words):
        read(head)


@pytest.mark.parametrize(
    ("text", "head", "body"),
    [
        ("---\na: b\n---\nbody\n", "a: b", "body"),
        ("\ufeff---\r\na: b\r\n---\r\nx\r\ny", "a: b", "x\ny"),
        ("\n\n---  \na: b\n...\n\nbody\n---\nmore", "a: b", "body\n---\nmore"),
        ("# Title\n", None, "# Title"),
        ("", None, ""),
        ("---\n---\nx", "", "x"),
        ("text\n---\na: b\n---", None, "text\n---\na: b\n---"),
    ],
)
def test_head_and_body(text: str, head: str | None, body: str):
    assert split(text) == (head, body)


def test_a_head_that_never_ends():
    with pytest.raises(BadFrontmatter, match="never ends"):
        split("---\nname: x\n\nbody")


@pytest.mark.parametrize(
    "line",
    [
        "a%d: [",
        'a%d: "',
        "a%d: '",
        "a%d: |",
        "a%d:\n",
        "  - a%d",
        "a%d: {b: [",
        "a%d: x\n\n\n",
        "a%d: ''",
    ],
)
def test_no_head_takes_for_ever(line: str):
    head = "\n".join(line % n for n in range(450))
    try:
        read(head)
    except BadFrontmatter:
        pass


_LINE = st.text("ab:#- '\"[]{},|>&*!?\\\n\t~", max_size=40)


@given(st.lists(_LINE, max_size=6).map("\n".join))
@settings(max_examples=1500, deadline=None)
def test_anything_is_read_or_refused(head: str):
    try:
        found = read(head)
    except BadFrontmatter:
        return
    assert _plain(found)


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(item) for key, item in value.items())
    return (
        all(map(_plain, value))
        if isinstance(value, list)
        else value is None or isinstance(value, str)
    )


@given(st.dictionaries(st.text("abc", min_size=1), st.text(max_size=30), max_size=4))
@settings(max_examples=300, deadline=None)
def test_quoted_text_comes_back_whole(keys: dict[str, str]):
    import json

    keys = {
        key: value
        for key, value in keys.items()
        if not any("\ud800" <= c <= "\udfff" for c in value)
    }
    head = "\n".join(f"{key}: {json.dumps(value)}" for key, value in keys.items())
    if "\\ud" not in head:  # YAML has no surrogate pairs
        assert read(head) == keys


@pytest.mark.deep
@given(
    st.recursive(
        st.text("ab c1.", min_size=1, max_size=8).map(str.strip).filter(bool),
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(st.text("xyz", min_size=1, max_size=3), inner, min_size=1, max_size=3)
        ),
        max_leaves=8,
    )
)
@settings(max_examples=500, deadline=None)
def test_it_reads_what_a_yaml_writer_writes(value: Any):
    yaml = pytest.importorskip("yaml")
    head = yaml.dump({"k": value}, width=30)
    assert read(head) == yaml.load(head, Loader=yaml.BaseLoader)
