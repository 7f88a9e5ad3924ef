"""The words of a docstring reach the model, in every common style."""

import subprocess
import sys

import pytest

from windlass.tools.docs import read_docs
from windlass.tools.function import as_tool

GOOGLE = """Move money.

    Between two accounts of one owner.

    Args:
        source: where it comes from,
            as an account number
        amount (float): how much. Defaults to 1.
        *rest: not this

    Returns:
        str: the receipt

    Raises:
        ValueError: never
    """
NUMPY = """Move money.

    Between two accounts of one owner.

    Parameters
    ----------
    source : str
        where it comes from,
        as an account number
    amount : float, optional
        how much. Defaults to 1.

    Returns
    -------
    str
        the receipt
    """
SPHINX = """Move money.

    Between two accounts of one owner.

    :param source: where it comes from,
        as an account number
    :param float amount: how much. Defaults to 1.
    :type source: str
    :returns: the receipt
    :raises ValueError: never
    """
EPYDOC = """Move money.

    Between two accounts of one owner.

    @param source: where it comes from,
        as an account number
    @param amount: how much. Defaults to 1.
    @return: the receipt
    """


@pytest.mark.parametrize("style", [GOOGLE, NUMPY, SPHINX, EPYDOC])
def test_every_style_gives_the_same_words(style: str) -> None:
    def move(source: str, amount: float = 1.0) -> str:
        return "ok"

    move.__doc__ = style
    made = as_tool(move)
    expected = "Move money.\n\nBetween two accounts of one owner.\n\nReturns: the receipt"
    assert made.description == expected
    words = {name: one["description"] for name, one in made.parameters["properties"].items()}
    assert words == {
        "source": "where it comes from, as an account number",
        "amount": "how much. Defaults to 1.",
    }


def test_text_without_sections_is_kept_whole() -> None:
    text = "One.\n\n    Two: and\n      three.\n    "
    assert read_docs(text).description == "One.\n\nTwo: and\n  three."
    assert read_docs(None).description == ""
    assert read_docs("").description == ""


def test_a_docstring_the_parser_cannot_read_is_kept_whole() -> None:
    text = "Say it.\n\n:param: x"
    assert read_docs(text).description == text


def test_the_parser_is_loaded_only_for_sections() -> None:
    code = """
import sys
from windlass.tools.function import as_tool
def f(x: int) -> int:
    '''One line.

    And more, in a paragraph of its own.
    '''
    return x
as_tool(f).prepare({"x": 1})
assert "docstring_parser" not in sys.modules
def g(x: int) -> int:
    '''One.

    Args:
        x: a number
    '''
    return x
as_tool(g)
assert "docstring_parser" in sys.modules
assert "pydantic" not in sys.modules and "jsonschema" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
