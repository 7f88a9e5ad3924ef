"""The walk over every name of typed attempts: it is there, typed, documented, and on the page."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest

import windlass as w
from tests.names import attempts
from windlass.attempts.result import Phase

PAGE = Path(__file__).parents[2].joinpath("docs/guides/typed-answers.md").read_text()


def arguments_of(function: Any) -> set[str]:
    """Return what a function takes by name, also the callbacks that stand in a dict of types."""
    known = set(inspect.signature(function).parameters)
    return known | set(w.ExecuteCallbacks.__annotations__) if "options" in known else known


@pytest.mark.parametrize("name", attempts.FUNCTIONS)
def test_function_takes_its_arguments(name: str):
    function = getattr(w, name)
    assert set(attempts.FUNCTIONS[name].split()) <= arguments_of(function)
    assert len(inspect.getdoc(function) or "") > 40 and name in PAGE


@pytest.mark.parametrize("name", attempts.CLASSES)
def test_class_has_its_fields(name: str):
    kind = getattr(w, name)
    known = set(dir(kind)) | set(getattr(kind, "__annotations__", {}))
    assert set(attempts.CLASSES[name].split()) <= known
    assert len(inspect.getdoc(kind) or "") > 20


def test_codes_are_all_there_and_on_the_page():
    assert [code.name for code in w.AgentErrorCode] == attempts.CODES
    for code in attempts.CODES:
        assert f"| `{code}` |" in PAGE


def test_phases_and_the_submit_tool():
    assert get_args(Phase) == ("prompt", "iteration", "validation")
    assert (w.DEFAULT_SUBMIT_TOOL.name, w.DEFAULT_SUBMIT_TOOL.parameters["properties"]) == (
        "submit",
        {},
    )
    assert w.ExecuteFailure is w.Failure
