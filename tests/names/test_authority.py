"""The walk over the names of authority: resources, roles and their Runtime, there and documented."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import windlass as w
from windlass.resources import audit
from windlass.resources.resource import HOOKS, VERBS

FUNCTIONS = {"export": "cls name verbs scope", "reflect": "table scope tenant shared version columns",
             "field": "index unique description private", "approve_plan": "plan by expires_in store",
             "plan_of": "session_id store", "undoable": "session_id tools caller deps store",
             "undo": "session_id call_ids tools by caller deps store force"}  # fmt: skip
CLASSES = ("AuditRow", "Caller", "Handle", "Page", "Query", "Resource", "ResourceTx", "Resources",
           "Roles", "Runtime", "EffectPlan", "PlannedEffect", "UndoStep")  # fmt: skip
RUNTIME = ("store", "config", "resources", "tools", "roles")
HANDLE = {
    "get": "id", "search": "where sort limit cursor", "create": "values",
    "update": "id values version", "delete": "id version", "run": "method id",
}  # fmt: skip
ATTRIBUTES = ("path", "table", "verbs", "mcp_tools", "max_limit", "audit_reads")
LOG = "tenant caller request conversation session call tool resource verb row outcome since until"


class Product(w.Resource):
    """Things we sell."""

    id: str
    name: str
    mcp_tools = ["restock"]

    def restock(self, tx: w.ResourceTx, amount: int) -> str:
        """Put more on the shelf."""
        return f"{amount} more"


def documented(thing: Any) -> bool:
    return len(inspect.getdoc(thing) or "") > 10


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w.__all__ and documented(function)
    given = list(inspect.signature(function).parameters)
    assert given[: len(FUNCTIONS[name].split())] == FUNCTIONS[name].split()


@pytest.mark.parametrize("name", CLASSES)
def test_a_class(name: str):
    assert name in w.__all__ and documented(getattr(w, name))


@pytest.mark.parametrize("name", RUNTIME)
def test_an_argument_of_the_runtime(name: str):
    assert name in inspect.signature(w.Runtime).parameters


@pytest.mark.parametrize("name", HANDLE)
def test_what_a_host_calls(name: str):
    method = getattr(w.Handle, name)
    given = list(inspect.signature(method).parameters)[1:]
    assert given[: len(HANDLE[name].split())] == HANDLE[name].split() and documented(method)
    assert {"caller", "request_id", "conversation_id"} <= set(given)


@pytest.mark.parametrize("name", [*VERBS, *dict.fromkeys(HOOKS.values())])
def test_a_verb_or_a_hook(name: str):
    assert documented(getattr(w.Resource, name))


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_of_the_class(name: str):
    assert hasattr(w.Resource, name)


@pytest.mark.parametrize("verb", [*VERBS, "restock"])
def test_a_tool_of_the_registry(verb: str):
    scope = w.Runtime(environ={}, resources=[Product])
    tool = next(one for one in scope.resources.tools() if one.name == f"{verb}_product")
    assert tool.description and tool.parameters["additionalProperties"] is False
    assert tool.annotations["resource"] == "product" and tool.annotations["verb"] == verb


@pytest.mark.parametrize("name", LOG.split())
def test_a_filter_of_the_log(name: str):
    assert name in audit.Which.__annotations__


def test_the_errors():
    for name in (
        "ResourceError",
        "NotFound",
        "Conflict",
        "InvalidValue",
        "PermissionDenied",
        "CannotUndo",
    ):
        assert issubclass(getattr(w, name), w.WindlassError) and documented(getattr(w, name))
