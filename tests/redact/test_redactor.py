"""A redactor finds every secret it was given, in every form, and touches nothing else."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from ahocorasick_rs import AhoCorasick
from hypothesis import assume, given
from hypothesis import strategies as st

from windlass.events import InboxTaken, IterationStart, Noted, Said, ToolDecided
from windlass.messages import Message, Text, ToolCall
from windlass.redaction.redactor import (
    MARK,
    Redactor,
    Secret,
    looks_secret,
    mask_url,
)
from windlass.redaction.secret_forms import Forms

KEY = "sk-ant-0123456789abcdef"
ODD = 'pa"ss/w\\örd+ \n€1'  # needs escaping in JSON and quoting in URLs, and is not ASCII

FORMS = {
    "plain": lambda s: s,
    "json": lambda s: json.dumps(s)[1:-1],
    "json as msgspec writes it": lambda s: msgspec.json.encode(s)[1:-1].decode(),
    "json in json": lambda s: json.dumps(json.dumps({"k": s})),
    "json in utf-8 json": lambda s: json.dumps(json.dumps({"k": s}, ensure_ascii=False)),
    "url path": quote,
    "url part": lambda s: quote(s, safe=""),
    "form": quote_plus,
    "url, small letters": lambda s: (
        quote(s, safe="")
        .replace("%2F", "%2f")
        .replace("%C3%B6", "%c3%b6")
        .replace("%2B", "%2b")
        .replace("%5C", "%5c")
        .replace("%0A", "%0a")
        .replace("%E2%82%AC", "%e2%82%ac")
    ),
    "json, every letter": lambda s: "".join(f"\\u{u:04x}" for u in _utf16(s)),
    "json, every letter, capitals": lambda s: "".join(f"\\u{u:04X}" for u in _utf16(s)),
    "json, every letter, twice": lambda s: "".join(f"\\\\u{u:04x}" for u in _utf16(s)),
    "url, every byte": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "url, every byte, small letters": lambda s: "".join(f"%{byte:02x}" for byte in s.encode()),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 for urls": lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
}


def _utf16(text: str) -> tuple[int, ...]:
    units = text.encode("utf-16-be")
    return tuple(int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))


secrets = st.text(
    st.characters(codec="utf-8", exclude_characters="[]redacted"), min_size=6, max_size=40
).filter(lambda s: len(s.strip()) >= 6)


@pytest.mark.parametrize("secret", [KEY, ODD])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found(secret: str, form: str):
    written = FORMS[form](secret)
    redactor = Redactor([Secret(secret)])
    assert MARK in redactor.text(f"before {written} after")
    assert written not in redactor.text(f"before {written} after")
    assert MARK.encode() in redactor.bytes(f"before {written} after".encode())
    assert written.encode() not in redactor.bytes(f"before {written} after".encode())


@pytest.mark.parametrize("user", ["", "a", "an", "ann", "anna"])
def test_a_password_inside_longer_base64_is_found(user: str):
    header = base64.b64encode(f"{user}:{KEY}!".encode()).decode()
    cleaned = Redactor([KEY]).text(f"Basic {header}")
    assert MARK in cleaned
    assert len(cleaned) < len(header)


def test_several_secrets_and_the_longest_first():
    redactor = Redactor(["abcdef", "abcdef-longer", "xyzxyz"])
    assert redactor.text("abcdef-longer xyzxyz abcdefabcdef") == f"{MARK} {MARK} {MARK}{MARK}"


def test_a_secret_read_from_a_file_is_found_without_its_newline():
    assert Redactor([f"{KEY}\n"]).text(f"key={KEY}.") == f"key={MARK}."


def test_short_values_are_not_taken():
    redactor = Redactor()
    assert redactor.add("abcde") is False
    assert redactor.add("") is False
    assert redactor.text("abcde") == "abcde"
    assert len(redactor) == 0
    assert redactor.add("abcdef") is True
    assert redactor.text("abcdef") == MARK


def test_the_mark_itself_cannot_become_a_secret():
    redactor = Redactor(["redacted", KEY])
    assert redactor.text(f"{KEY} redacted") == f"{MARK} redacted"


def test_it_does_not_show_what_it_knows():
    assert KEY not in repr(Redactor([KEY]))


# --------------------------------------------------------------------------- properties


@given(secrets, st.text(), st.text())
def test_no_text_around_a_secret_keeps_it(secret: str, before: str, after: str):
    cleaned = Redactor([secret]).text(before + secret + after)
    assert secret not in cleaned


@given(
    st.lists(secrets, min_size=1, max_size=4), st.text(alphabet="0123456789 \n\"'é", max_size=200)
)
def test_text_without_a_secret_is_the_same_object(known: list[str], text: str):
    redactor = Redactor(known)
    assume(not any(form(secret.strip()) in text for secret in known for form in FORMS.values()))
    assert redactor.text(text) is text


@given(st.lists(secrets, min_size=1, max_size=4), st.data())
def test_a_stream_shows_what_the_whole_text_would(known: list[str], data: st.DataObject):
    parts = st.one_of(
        st.sampled_from(known), st.text(max_size=8), st.sampled_from(known).map(_half)
    )
    text = "".join(data.draw(st.lists(parts, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    redactor = Redactor(known)
    stream = redactor.stream()
    shown = [
        stream.feed(text[start:stop])
        for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)
    ]
    whole = "".join([*shown, stream.flush()])
    assert whole == redactor.text(text)


def _half(secret: str) -> str:
    return secret[: len(secret) // 2]


@given(
    secrets,
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-9, 9)
        | st.floats(allow_nan=False)
        | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        ),
        max_leaves=12,
    ),
)
def test_a_tree_keeps_its_shape_and_loses_its_secrets(secret: str, tree: object):
    redactor = Redactor([secret])
    canary = {"tree": tree, "here": [f"x{secret}y", {secret: 1}], "raw": secret.encode()}
    cleaned = redactor.value(canary)
    assert cleaned["here"] == [f"x{MARK}y", {MARK: 1}]
    assert cleaned["raw"] == MARK.encode()
    assert cleaned["tree"] == redactor.value(tree)


# --------------------------------------------------------------------------- data


def test_clean_data_comes_back_as_it_is():
    redactor = Redactor([KEY])
    for clean in (
        Said(Message("user", "hello")),
        IterationStart(3),
        {"a": [1, 2.5, None, True, "x"], "b": ("y",)},
        [],
        7,
        None,
        Noted("x", {1: "odd keys", "s": {"a", "b"}}),
    ):
        assert redactor.value(clean) is clean


def test_a_redactor_that_knows_nothing_returns_everything_at_once():
    class Odd:
        pass

    odd = Odd()
    assert Redactor().value(odd) is odd
    assert Redactor().text(KEY) is KEY
    assert Redactor().bytes(b"x") == b"x"


def test_an_entry_is_copied_with_the_same_type_and_reads_back():
    entry = Said(
        Message(
            "assistant", (Text(f"use {KEY}"), ToolCall("c1", "get", {"auth": [f"Bearer {KEY}"]}))
        )
    )
    cleaned = Redactor([KEY]).entry(entry)
    assert type(cleaned) is Said
    assert cleaned.message.text == f"use {MARK}"
    assert cleaned.message.tool_calls[0].arguments == {"auth": [f"Bearer {MARK}"]}
    assert entry.message.text == f"use {KEY}"
    assert msgspec.json.decode(msgspec.json.encode(cleaned), type=Said) == cleaned


def test_a_secret_that_is_a_word_of_the_format_leaves_entries_readable():
    redactor = Redactor(["assistant", "message", "tool_call", "allowed", "decision"])
    entry = Said(Message("assistant", (Text("the assistant"), ToolCall("c1", "get", {}))))
    cleaned = redactor.entry(entry)
    assert cleaned.message.role == "assistant"
    assert cleaned.message.text == f"the {MARK}"
    assert msgspec.json.decode(msgspec.json.encode(cleaned), type=Said) == cleaned
    decided = ToolDecided("c1", "get", "allow", "decision", "ann", "d")
    assert redactor.entry(decided) == ToolDecided("c1", "get", "allow", MARK, "ann", "d")


def test_a_number_is_left_a_number():
    assert Redactor(["12345678"]).value({"n": 12345678, "s": "12345678"}) == {
        "n": 12345678,
        "s": MARK,
    }


def test_containers_keep_their_type():
    class Pair(tuple):
        __slots__ = ()

    redactor = Redactor([KEY])
    assert redactor.value((KEY, 1)) == (MARK, 1)
    assert redactor.value({KEY}) == {MARK}
    assert redactor.value(frozenset({KEY})) == frozenset({MARK})
    assert redactor.value([[KEY]]) == [[MARK]]
    assert type(redactor.value(Pair((KEY,)))) is Pair


def test_secrets_dataclasses_enums_and_bytes_inside_data():
    @dataclasses.dataclass
    class Login:
        user: str
        key: str

    class Kind(enum.Enum):
        LEAK = KEY

    redactor = Redactor([KEY])
    assert redactor.value(InboxTaken("i", "steer", {"k": Secret("another-one")})).payload == {
        "k": MARK
    }
    assert redactor.value({"l": Login("ann", KEY)}) == {"l": {"user": "ann", "key": MARK}}
    assert redactor.value([Kind.LEAK]) == [MARK]
    assert redactor.value({"raw": f"xx{KEY}".encode()}) == {"raw": f"xx{MARK}".encode()}
    kept = {"l": Login("ann", "none"), "s": KEY}
    assert redactor.value(kept)["l"] is kept["l"]


def test_what_cannot_be_written_as_json_is_still_cleaned():
    redactor = Redactor([KEY])
    assert redactor.value({"bad": "\ud800", "s": KEY}) == {"bad": "\ud800", "s": MARK}
    assert redactor.value({"o": object, "s": KEY}) == {"o": object, "s": MARK}
    assert redactor.text(f"\ud800{KEY}") == f"\ud800{MARK}"


def test_what_is_nested_too_deep_is_replaced_rather_than_shown():
    deep: list = [KEY]
    for _ in range(50_000):
        deep = [deep]
    cleaned = Redactor([KEY]).value({"deep": deep, "s": "fine"})
    assert cleaned["s"] == "fine"
    while isinstance(cleaned, (dict, list)):
        cleaned = cleaned["deep"] if isinstance(cleaned, dict) else cleaned[0]
    assert cleaned == MARK


# --------------------------------------------------------------------------- where secrets come from


@pytest.mark.parametrize(
    "name",
    "ANTHROPIC_API_KEY HF_TOKEN GITHUB_TOKEN CLIENT_SECRET DB_PASSWORD PGPASSWORD AUTHORIZATION "
    "AWS_SECRET_ACCESS_KEY SSH_PASSPHRASE GOOGLE_CREDENTIALS SENTRY_DSN x-api-key X-Goog-Api-Key "
    "Proxy-Authorization Cookie api_key token".split(),
)
def test_names_of_secrets(name: str):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    "PATH max_tokens MAX_TOKENS TOKENIZER SSH_AUTH_SOCK AWS_ACCESS_KEY_ID TOKEN_URL PASSWORD_FILE "
    "content-type Idempotency-Key author monkey keyboard".split(),
)
def test_names_of_other_things(name: str):
    assert not looks_secret(name)


def test_the_environment_gives_its_auth_variables_and_passwords_in_urls():
    redactor = Redactor()
    redactor.add_env(
        {
            "OPENAI_API_KEY": "sk-proj-1234567",
            "AZURE_OPENAI_KEY": "az-12345678",
            "HF_TOKEN": "hf_short"[:7],
            "DATABASE_URL": "postgresql://ann:hunter2hunter2@db/shop",
            "LANG": "en_US.UTF-8",
        }
    )
    assert len(redactor) == 3
    text = "sk-proj-1234567 az-12345678 hf_shor hunter2hunter2 en_US.UTF-8"
    assert redactor.text(text) == f"{MARK} {MARK} hf_shor {MARK} en_US.UTF-8"


def test_headers_give_the_bare_token():
    redactor = Redactor()
    redactor.add_headers(
        {
            "Authorization": "Bearer tok-1234567",
            "X-Api-Key": Secret("key-1234567"),
            "Proxy-Authorization": "Basic " + base64.b64encode(b"ann:hunter2hunter2").decode(),
            "Cookie": "theme=dark; sid=cookie-1234567",
            "Set-Cookie": "sid=fresh-1234567; Domain=example.com; Path=/",
            "Content-Type": "application/json",
        }
    )
    for secret in (
        "tok-1234567",
        "key-1234567",
        "hunter2hunter2",
        "cookie-1234567",
        "fresh-1234567",
    ):
        assert redactor.text(f"<{secret}>") == f"<{MARK}>"
    for other in ("Bearer", "dark", "application/json", "example.com"):
        assert redactor.text(other) == other


def test_a_password_in_a_url_can_be_masked_without_knowing_it():
    assert mask_url("postgresql://ann:hunter2@db/shop") == "postgresql://ann:****@db/shop"
    assert mask_url("https://example.com/a@b:c") == "https://example.com/a@b:c"
    assert mask_url("no url, ann:x@y") == "no url, ann:x@y"


# --------------------------------------------------------------------------- many secrets


def test_a_thousand_secrets_are_looked_for_in_one_pass(monkeypatch: pytest.MonkeyPatch):
    passes: list[int] = []

    class Counting:
        def __init__(self, needles: Any, **options: Any) -> None:
            self.automaton = AhoCorasick(needles, **options)

        def find_matches_as_indexes(self, text: str) -> Any:
            passes.append(len(text))
            return self.automaton.find_matches_as_indexes(text)

    monkeypatch.setattr("windlass.redaction.secret_forms.AhoCorasick", Counting)
    text = "the quick brown fox jumps over the lazy dog, and 0123456789 again. " * 100
    keys = [f"sk-{number:04d}-{number * 7919:032x}" for number in range(1000)]
    many = Redactor(keys)
    assert many.text(text) is text and many.text(text + keys[999]).endswith(MARK)
    assert passes == [len(text), len(text) + len(keys[999])]


def test_adding_secrets_one_by_one_builds_one_automaton(monkeypatch: pytest.MonkeyPatch):
    built: list[int] = []
    monkeypatch.setattr(
        "windlass.redaction.redactor.Forms",
        lambda secrets: built.append(len(secrets)) or Forms(secrets),
    )
    redactor = Redactor()
    for number in range(500):
        redactor.add(f"secret-number-{number:04d}")
    assert redactor.text("x secret-number-0499 y") == f"x {MARK} y"
    assert built == [500]


def test_a_stream_full_of_secrets_is_cleaned_in_one_pass():
    redactor = Redactor([KEY])
    stream = redactor.stream()
    assert stream.feed(KEY * 20_000) + stream.flush() == MARK * 20_000
