"""The matcher, over generated spellings: what is denied is denied however it is written, and what an
allow lets through lies inside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from windlass.access.addresses import canonical_host, parse_address
from windlass.access.match import CallValues, fits_arguments, fits_command, fits_place, touches_host
from windlass.access.paths import read_path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("root")
    (place / "notes" / "deep").mkdir(parents=True)
    (place / "secret").mkdir()
    (place / "open").symlink_to("secret")
    (place / "notes" / "leak").symlink_to("/etc")
    (place / "notes" / "up").symlink_to("..")
    yield os.path.realpath(place)


def call(root: str, annotations: Any = None, **arguments: Any) -> CallValues:
    return CallValues(arguments, annotations or {}, frozenset(arguments), root)


# --------------------------------------------------------------------------- paths

NOTHING = st.sampled_from(
    ["", "./", ".//", "notes/../", "nowhere/../", "notes/deep/../../", "/", "secret/../"]
)
SECRET = st.sampled_from(
    ["secret/", "secret//", "secret/./", "open/", "\uff53ecret/", "secret\\", "secret/x/../"]
)


@given(
    start=st.lists(NOTHING.filter(lambda one: one != "/"), max_size=3),
    folder=SECRET,
    name=st.sampled_from(["key", "./key", "a/../key", "deep/key", "k\u00e9y"]),
    absolute=st.booleans(),
    argument=st.sampled_from(["path", "text", "files", "anything"]),
)
def test_a_denied_path_is_denied_in_every_spelling(
    root: str, start: list[str], folder: str, name: str, absolute: bool, argument: str
):
    path = (f"{root}/" if absolute else "") + "".join(start) + folder + name
    assert fits_arguments(["secret/*"], None, call(root, **{argument: path}), "deny"), path
    assert fits_arguments([f"{root}/secret/**"], None, call(root, **{argument: [path]}), "deny"), (
        path
    )
    assert fits_place("secret/**", path, root, "deny"), path
    inner = {"list": [{path: 1}]}
    assert fits_arguments(["secret/*"], None, call(root, **{argument: inner}), "deny"), path


PIECES = st.sampled_from(
    [
        "notes",
        "/",
        "..",
        ".",
        "//",
        "leak",
        "up",
        "deep",
        "\\",
        "~",
        "a",
        "secret",
        "\0",
        "\uff0e\uff0e",
        "etc",
        "passwd",
        "open",
        " ",
        "\n",
        "*",
        "\u2215",
    ]
)


@given(st.lists(PIECES, max_size=9))
def test_what_an_allow_lets_through_lies_inside(root: str, pieces: list[str]):
    path = "".join(pieces)
    if not fits_arguments(["notes/*"], None, call(root, path=path), "allow"):
        return
    for spelled in (
        path,
        os.path.expanduser(path),
        path.replace("\\", "/"),
        os.path.normpath(path),
    ):
        assert os.path.dirname(os.path.realpath(os.path.join(root, spelled))) == f"{root}/notes", (
            path
        )


@given(st.lists(PIECES, max_size=9))
def test_no_path_is_allowed_and_denied_by_the_same_pattern_and_no_text_breaks_it(
    root: str, pieces: list[str]
):
    path = "".join(pieces)
    if fits_arguments(["notes/*"], None, call(root, path=path), "allow"):
        assert fits_arguments(["notes/*"], None, call(root, path=path), "deny"), path
        assert read_path(path, root)


# --------------------------------------------------------------------------- values, however deep

PLAIN = st.sampled_from(["fine", "good", 1, 2.5, False, None])


def around(value: Any) -> st.SearchStrategy[Any]:
    """Structures that hold a value, as a value or as a key."""
    leaf = st.just(value)
    keyed = st.builds(lambda key, other: {str(key): other}, leaf, PLAIN)
    return st.recursive(
        leaf | keyed,
        lambda inner: (
            st.builds(lambda one, more: [*more, one], inner, st.lists(PLAIN, max_size=3))
            | st.builds(
                lambda one, more: {**more, "in": one}, inner, st.dictionaries(st.just("k"), PLAIN)
            )
        ),
        max_leaves=5,
    )


@given(st.sampled_from(["eve", 1000000, True]).flatmap(around))
def test_deny_finds_a_value_however_deep_it_lies(root: str, value: Any):
    patterns = ["eve", "1000000", "true", "True"]
    assert fits_arguments(patterns, None, call(root, extra=value), "deny")
    assert fits_arguments(patterns, "extra", call(root, extra=value), "deny")
    assert not fits_arguments(patterns, "other", call(root, extra=value), "deny")


@given(st.sampled_from(["eve", "notes/../x", "/etc/passwd"]).flatmap(around), st.booleans())
def test_allow_is_not_won_by_one_good_value(root: str, value: Any, first: bool):
    several = ["notes/a", value] if first else [value, "notes/a"]
    assert not fits_arguments(["notes/*", "fine"], None, call(root, paths=several), "allow")
    assert not fits_arguments(["notes/*", "fine"], "target", call(root, target=several), "allow")
    assert fits_arguments(["notes/*"], None, call(root, paths=["notes/a", "notes/b"]), "allow")


@settings(max_examples=40)
@given(
    st.recursive(
        PLAIN | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_no_value_breaks_the_matcher(root: str, value: Any):
    for pattern in ("notes/*", "https://good.com/*", "fine", "*evil*", "[", "**"):
        for name in ("path", "url", "command", "other"):
            one = call(root, **{name: value})
            allowed = fits_arguments([pattern], None, one, "allow")
            denied = fits_arguments([pattern], None, one, "deny")
            assert not allowed or denied or name != "path"


# --------------------------------------------------------------------------- hosts

LETTERS = {
    "e": "eE\u24d4\uff45",
    "v": "vV\uff56",
    "i": "iI\u24d8",
    "l": "lL\u24db",
    "c": "cC\uff43",
    "o": "oO\u24de",
    "m": "mM\u24dc",
    ".": ".\u3002\uff0e\uff61",
}


@st.composite
def evil_urls(draw: st.DrawFn) -> str:
    host = "".join([draw(st.sampled_from(LETTERS[letter])) for letter in "evil.com"])
    scheme = draw(st.sampled_from(["https://", "HTTP://", "//", "ftp://", "wss://", ""]))
    user = draw(st.sampled_from(["", "good.com@", "a:b@"]))
    end = draw(st.sampled_from(["", ".", ":443", ".:80"]))
    rest = draw(st.sampled_from(["", "/", "/x?y=good.com", "#good.com", "?@good.com"]))
    return scheme + user + host + end + rest


@given(evil_urls())
def test_a_denied_host_is_denied_in_every_spelling(root: str, url: str):
    assert touches_host("evil.com", url, "deny")
    assert fits_arguments(["evil.com"], None, call(root, url=url), "deny")
    assert fits_arguments(["*evil.com*"], None, call(root, url=url), "deny")
    assert not touches_host("good.com", url, "allow")
    for pattern in ("https://good.com/*", "*good.com/*", "good.com"):
        assert not fits_arguments([pattern], None, call(root, url=url), "allow")


URL_PIECES = st.sampled_from(
    [
        "https://",
        "http://",
        "//",
        "/",
        "good.com",
        "evil.com",
        ".",
        "@",
        ":",
        "\\",
        "#",
        "?",
        "\t",
        "\n",
        "%2e",
        "%2f",
        "..",
        "\u3002",
        ":443",
        "[::1]",
        "127.1",
        "\u24d6ood.com",
        "a",
        "%00",
        " ",
        "v1",
    ]
)


@given(st.lists(URL_PIECES, max_size=8))
def test_what_an_allow_of_a_host_lets_through_connects_to_it(root: str, pieces: list[str]):
    url = "".join(pieces)
    if fits_arguments(["https://good.com/v1/*"], None, call(root, url=url), "allow"):
        parsed = URL(url)
        assert (parsed.scheme, parsed.host, parsed.port, parsed.user) == (
            "https",
            "good.com",
            443,
            None,
        )
        assert parsed.path.startswith("/v1/") and "/../" not in parsed.path + "/"
    if touches_host("good.com", url, "allow"):
        parsed = URL(url) if "//" in url else URL(f"//{url}")
        assert parsed.host is not None and parsed.host.rstrip(".") == "good.com", url
        assert parsed.user is None and url.isascii()


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from("doh"), min_size=4, max_size=4),
    st.integers(1, 4),
)
def test_an_ipv4_address_has_one_spelling(value: int, bases: list[str], count: int):
    parts = [value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255]
    last = value & ((1 << 8 * (5 - count)) - 1)
    numbers = [*parts[: count - 1], last]
    written = ".".join(
        [
            str(n) if base == "d" else f"0{n:o}" if base == "o" else hex(n)
            for n, base in zip(numbers, bases, strict=False)
        ]
    )
    plain = ".".join(map(str, parts))
    assert canonical_host(written) == plain
    assert parse_address(f"http://{written}:80/").host == plain
    assert canonical_host(f"::ffff:{plain}") == plain


# --------------------------------------------------------------------------- commands


@given(
    st.sampled_from(["", "ls; ", "a && ", "x | ", "echo $(", "`", "(", "x\n", "  "]),
    st.sampled_from([" ", "  ", "\t"]),
)
def test_a_denied_command_is_denied_within_a_line(before: str, space: str):
    assert fits_command("rm *", f"{before}rm{space}-rf x", "deny")
    assert not fits_command("rm *", f"{before}mv{space}rm x", "deny")


def test_the_workspace_is_not_matched_by_its_own_name(root: str):
    name = Path(root).name
    assert not fits_arguments([f"*{name}*"], None, call(root, path="a"), "deny")
    assert fits_arguments([f"*{name}*"], None, call(root, path=f"{root}/a"), "deny")
