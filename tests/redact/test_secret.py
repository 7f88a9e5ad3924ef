"""A Secret never shows itself."""

from __future__ import annotations

import copy
import json
import pickle

import msgspec
import pytest

from windlass.errors import ConfigError
from windlass.redaction.redactor import Secret

VALUE = "sk-ant-0123456789"


class Holder(msgspec.Struct):
    key: Secret


def test_only_reveal_gives_the_value():
    assert Secret(VALUE).reveal() == VALUE
    assert Secret(Secret(VALUE)).reveal() == VALUE


@pytest.mark.parametrize(
    "shown",
    [
        str(Secret(VALUE)),
        repr(Secret(VALUE)),
        f"{Secret(VALUE)}",
        f"{Secret(VALUE)!r:>40}",
        f"{Secret(VALUE):>40}",
        repr([Secret(VALUE)]),
        repr(Holder(Secret(VALUE))),
    ],
)
def test_showing_it_shows_stars(shown: str):
    assert "Secret(****)" in shown
    assert VALUE not in shown


@pytest.mark.parametrize(
    "write", [json.dumps, msgspec.json.encode, msgspec.to_builtins, pickle.dumps]
)
def test_writing_it_is_refused_without_naming_it(write):
    for held in (Secret(VALUE), [Secret(VALUE)]):
        with pytest.raises(TypeError) as caught:
            write(held)
        assert VALUE not in str(caught.value)


def test_it_has_nothing_else_to_look_into():
    assert not hasattr(Secret(VALUE), "__dict__")


def test_equal_secrets_are_equal_and_differ_from_their_text():
    assert Secret(VALUE) == Secret(VALUE)
    assert hash(Secret(VALUE)) == hash(Secret(VALUE))
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE


def test_an_empty_secret_is_false_and_copies_are_the_same():
    assert not Secret("")
    secret = Secret(VALUE)
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret


def test_a_secret_is_text():
    with pytest.raises(ConfigError, match="not int"):
        Secret(5)
