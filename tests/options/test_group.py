"""Option groups: declared once, checked by name, read as typed structs."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from windlass.errors import ConfigError
from windlass.options.checks import number, text
from windlass.options.group import (
    Option,
    OptionGroup,
    OptionStruct,
    checks_of,
    read_options,
    struct,
)


class Budget(OptionStruct, frozen=True, kw_only=True):
    """An example of a struct."""

    most: Annotated[int, Option(number(2, whole=True), aliases=("maximum",))] = 3
    word: Annotated[str, Option(text)] = "stop"


class ExampleOptions(OptionGroup, frozen=True, kw_only=True):
    """An example of a group."""

    example_limits: Annotated[Budget | None, Option(struct(Budget))] = None
    example_name: Annotated[str | None, Option(text)] = None


class Clashing(OptionGroup, frozen=True, kw_only=True):
    """Declares a name that another group has."""

    example_name: Annotated[str | None, Option(text)] = None


class Unchecked(OptionGroup, frozen=True, kw_only=True):
    """Forgets a check."""

    example: int = 1


def test_group_reads_its_own_options_and_no_others():
    values = {"example_name": "a", "other": 1}
    options = ExampleOptions.read(values)
    assert options == ExampleOptions(example_name="a")
    assert ExampleOptions.is_given(values) and not ExampleOptions.is_given({"other": 1})


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (True, Budget()),
        (False, None),
        (None, None),
        ({"most": 5}, Budget(most=5)),
        ({"maximum": 5}, Budget(most=5)),
        (Budget(word="end"), Budget(word="end")),
    ],
)
def test_struct_option_takes_a_dict_a_flag_and_the_struct(given: Any, taken: Budget | None):
    assert checks_of(ExampleOptions)["example_limits"]("example_limits", given) == taken


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mots": 5}, "example_limits has no key 'mots'; did you mean 'most'?"),
        ({"most": 1}, "example_limits.most is a whole number of at least 2, not 1"),
        ({"most": 3, "maximum": 3}, "the same: give one"),
        (Budget(most=1), "example_limits.most is a whole number of at least 2, not 1"),
        (3, "example_limits is a dict or a Budget, not 3"),
    ],
)
def test_struct_option_refuses_what_does_not_fit(given: Any, words: str):
    with pytest.raises(ConfigError) as refused:
        checks_of(ExampleOptions)["example_limits"]("example_limits", given)
    assert words in str(refused.value)


def test_name_declared_by_two_groups_is_an_error():
    with pytest.raises(TypeError, match="example_name is declared by another group"):
        checks_of(ExampleOptions, Clashing)


def test_field_without_a_check_is_an_error():
    with pytest.raises(TypeError, match="example has no Option"):
        read_options(Unchecked)
