"""The walk over every name of authority: it is there, typed and documented, and a run reaches it."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any, get_args

import click
import pytest

import windlass as w
from tests.names import authority
from tests.option_areas import AUTHORITY, CHECKS
from windlass.access.approval import FIELDS
from windlass.access.guards import sensitive
from windlass.cli.main import main
from windlass.engine.keywords import LoopOptions
from windlass.events import JournalEntry
from windlass.generate.api import FinishReason
from windlass.generate.options import GenerateOptions
from windlass.resources import audit
from windlass.resources.conversation_rows import ConversationTurn
from windlass.resources.row import HOOKS, VERBS
from windlass.store import model_calls
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

DOCS = "\n".join(
    path.read_text()
    for path in sorted(Path(__file__).parents[2].joinpath("docs").rglob("*.md"))
    if path.name != "names.md"  # which lists all of them
)


class Product(w.Resource):
    """Things we sell."""

    id: str
    name: str
    mcp_tools = ["restock"]

    def restock(self, tx: w.ResourceTx, amount: int) -> str:
        """Put more on the shelf."""
        return f"{amount} more"


@w.tool(side_effect_level="read_only")
async def look() -> str:
    """Look."""
    return "seen" * 100


@w.tool
async def write(path: str) -> str:
    """Write."""
    return path


def documented(thing: Any) -> bool:
    return len(inspect.getdoc(thing) or "") > 10


def on_a_page(name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", DOCS) is not None


# --------------------------------------------------------------------------- what is there


@pytest.mark.parametrize("name", authority.FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w._HOME and documented(function) and on_a_page(name)
    given = list(inspect.signature(function).parameters)
    wanted = authority.FUNCTIONS[name].split()
    assert [one for one in given if one in wanted] == wanted


@pytest.mark.parametrize("name", authority.CLASSES)
def test_a_class_and_its_parts(name: str):
    kind = getattr(w, name)
    assert name in w._HOME and documented(kind) and on_a_page(name)
    known = set(dir(kind)) | set(getattr(kind, "__slots__", ()))
    assert set(authority.CLASSES[name].split()) <= known
    for part in authority.CLASSES[name].split():
        member = inspect.getattr_static(kind, part, None)
        if inspect.isfunction(member) or isinstance(member, property):
            assert documented(member), f"{name}.{part}"


@pytest.mark.parametrize("name", authority.RUNTIME)
def test_an_argument_of_the_runtime(name: str):
    assert name in inspect.signature(w.Runtime).parameters and on_a_page(name)


@pytest.mark.parametrize("name", authority.HANDLE)
def test_what_a_host_calls(name: str):
    method = getattr(w.Handle, name)
    given = list(inspect.signature(method).parameters)[1:]
    wanted = authority.HANDLE[name].split()
    assert given[: len(wanted)] == wanted and documented(method)
    assert {"caller", "request_id", "conversation_id"} <= set(given)


@pytest.mark.parametrize("name", [*VERBS, *dict.fromkeys(HOOKS.values())])
def test_a_verb_or_a_hook(name: str):
    assert documented(getattr(w.Resource, name)) and on_a_page(name)


@pytest.mark.parametrize("verb", [*VERBS, "restock"])
def test_a_tool_of_the_registry(verb: str):
    scope = w.Runtime(environ={}, resources=[Product])
    tool = next(one for one in scope.resources.tools() if one.name == f"{verb}_product")
    assert tool.description and tool.parameters["additionalProperties"] is False
    assert tool.annotations["resource"] == "product" and tool.annotations["verb"] == verb


def test_a_path_makes_a_name_that_models_can_call():
    class Odd(Product):
        path = "shop/products-2.new"

    names = [tool.name for tool in w.Runtime(environ={}, resources=[Odd]).resources.tools()]
    assert "get_shop_products_2_new" in names
    assert all(re.fullmatch(r"[a-zA-Z0-9_]{1,64}", name) for name in names)


def test_what_chooses_rows_of_the_log_and_of_the_books():
    assert set(authority.LOG.split()) <= set(audit.Which.__annotations__)
    assert set(authority.BOOKS.split()) == set(model_calls.Which.__annotations__)


@pytest.mark.parametrize("name", authority.ERRORS)
def test_an_error(name: str):
    assert issubclass(getattr(w, name), w.WindlassError) and documented(getattr(w, name))
    assert on_a_page(name)


@pytest.mark.parametrize("name", authority.EVENTS)
def test_a_transcript_kind(name: str):
    [kind] = [one for one in get_args(JournalEntry) if one.__struct_config__.tag == name]
    assert list(kind.__struct_fields__) == authority.EVENTS[name].split()
    assert documented(kind) and on_a_page(name)


@pytest.mark.parametrize("command", authority.COMMANDS)
def test_a_command(command: str):
    found: Any = main if isinstance(main, click.Group) else _group()
    for word in command.split():
        found = found.get_command(click.Context(found), word)
        assert found is not None, command
    assert found.get_short_help_str() and on_a_page(f"windlass {command.split()[0]}")


def _group() -> Any:
    module = importlib.import_module("windlass.cli.main")
    return next(value for value in vars(module).values() if isinstance(value, click.Group))


def test_roles_and_reasons():
    hints = typing.get_type_hints(ConversationTurn)
    assert sorted(get_args(hints["role"])) == sorted(authority.TURN_ROLES)
    assert sorted(get_args(FinishReason)) == sorted(authority.FINISHED)


POSTGRES = pytest.param(
    "postgres", marks=pytest.mark.skipif(find_binaries() is None, reason=MISSING)
)


@pytest.mark.parametrize("place", [*authority.STORES, POSTGRES])
async def test_a_store_by_its_address(place: str, tmp_path: Path):
    url = shared_server().schema() if place == "postgres" else place.format(folder=tmp_path)
    assert place != "postgres" or url.startswith("postgresql://")
    async with w.Runtime(store=url, environ={}) as scope:
        out = await scope.models.generate("go", model=scripted("ok"), request_id="r")
        assert out.content == "ok"
        assert [one.request for one in await scope.store.calls(request="r")] == ["r"]


@pytest.mark.parametrize("column", authority.CLASSES["ModelCall"].split())
async def test_a_column_of_the_books(column: str, tmp_path: Path):
    async with w.Runtime(store=f"sqlite:///{tmp_path}/x.db", environ={}, tools=[look]) as scope:
        await scope.models.generate("go", model=scripted(call("look"), "ok"), conversation="c")
        sql = f'SELECT "{column}" FROM windlass_model_calls ORDER BY n'
        rows = await scope.store.consult(lambda tx: tx.execute(sql).fetchall())
        kept = [getattr(one, column) for one in await scope.store.calls(conversation="c")]
        assert len(rows) == 2 and [row[0] for row in rows] == kept
    assert on_a_page(column)


# --------------------------------------------------------------------------- generate


@pytest.mark.parametrize("name", authority.GENERATE)
async def test_an_option_of_generate(name: str):
    default, wrong = authority.GENERATE[name]
    assert name in w.GenerateOpts.__annotations__ or name in w.GenerateOpts.__optional_keys__
    assert on_a_page(name)
    async with w.Runtime(environ={}, resources=[Product]) as scope:
        model = scripted("never")
        with pytest.raises(w.ConfigError, match=name):
            await scope.models.generate("go", model=model, **{name: wrong})  # type: ignore
        assert not model.requests
        if default is not None:
            page = Path(__file__).parents[2].joinpath("docs", "guides", "auto-mode.md").read_text()
            assert re.search(rf"`{name}` \| `?\"?{default}\"?`?", page), f"{name} is {default}"
            given: Any = {name: default}
            await scope.models.generate("go", model=scripted("ok"), **given)


def test_what_generate_is_given_and_what_it_yields():
    for door in (w.Models.generate, w.Models.generate_stream):
        first, second, *options = inspect.signature(door).parameters
        assert (first, second) == ("self", "input")
        assert set(options) == set(w.GenerateOpts.__annotations__)
        assert "GenerateOpts" in str(door.__annotations__["options"])
    assert "GenerateResult" in str(inspect.signature(w.Models.generate).return_annotation)
    assert "GenerateChunk" in str(inspect.signature(w.Models.generate_stream).return_annotation)


@pytest.mark.parametrize("name", authority.NOT_BUILT)
async def test_what_is_not_built_is_unknown(name: str):
    async with w.Runtime(environ={}) as scope:
        with pytest.raises(w.ConfigError, match=name):
            await scope.models.generate("go", model=scripted("x"), **{name: {}})  # type: ignore
    assert name not in GenerateOptions.__struct_fields__


async def test_the_marker_of_what_was_cut():
    async with w.Runtime(environ={}, resources=[], tools=[look]) as scope:
        model = scripted(call("look"), "ok")
        await scope.models.generate("go", model=model, tool_result_max_bytes=200)
        told = str(list(model.requests[1].messages))
        assert authority.MARKER.format(n=400) in told


# --------------------------------------------------------------------------- options


@pytest.mark.parametrize("name", authority.OPTIONS)
def test_an_option_is_known_checked_and_typed(name: str):
    assert name in LoopOptions.__annotations__ and name in AUTHORITY and on_a_page(name)
    with pytest.raises(w.ConfigError, match=name):
        w.Agent(scripted("x"), **{name: object()})


KEYS = [(name, key) for name, keys in authority.OPTIONS.items() for key in keys]


@pytest.mark.parametrize(("option", "key"), KEYS)
def test_a_key_is_taken_and_arrives(option: str, key: str):
    value = authority.OPTIONS[option][key]
    typed = CHECKS[option](option, {key: value})
    arrived = getattr(typed, key)
    assert arrived == value or key in ("allow", "deny", "rules", "external_roots")
    assert arrived != getattr(type(typed)(), key), "the default, whatever was said"
    assert on_a_page(key)
    with pytest.raises(w.ConfigError, match=f"{option}.*{key}"):
        CHECKS[option](option, {f"{key}_": value})


@pytest.mark.parametrize("rule", authority.RULES, ids=str)
def test_a_rule_as_it_may_be_written(rule: Any):
    typed = CHECKS["approval_policy"]("approval_policy", {"rules": [rule]})
    [made] = typed.rules
    assert made.action == next(
        (a for a in ("allow", "ask", "deny") if a in rule), rule.get("action")
    )
    assert made.match == {"tool": ("x",)} and made.rationale == rule.get("rationale")


@pytest.mark.parametrize("field", authority.MATCHERS)
def test_what_a_rule_looks_at(field: str):
    assert tuple(authority.MATCHERS) == FIELDS and on_a_page(field)
    value = 2 if field == "repeat_count" else "x*"
    typed = CHECKS["approval_policy"]("approval_policy", {"rules": [{"ask": {field: value}}]})
    assert list(typed.rules[0].match) == [field]


@pytest.mark.parametrize("path", authority.SENSITIVE)
def test_a_name_that_holds_secrets(path: str):
    assert sensitive(f"/srv/ann/{path}") is not None
    assert sensitive("/srv/ann/notes.txt") is None


# --------------------------------------------------------------------------- reached by a run


@pytest.mark.parametrize("answer", authority.GRANTS, ids=str)
async def test_what_a_person_may_grant(answer: object):
    asked: list[w.PermissionRequest] = []

    def may(request: w.PermissionRequest) -> object:
        asked.append(request)
        return answer

    model = scripted(call("write", path="a"), "ok")
    permissions = {"deny": ["write"], "on_escalation": may}
    out = await w.Agent(model, tools=[write], permissions=permissions).run("go", session_id="s")
    assert out.tool_calls[0].outcome == "ok"
    [request] = asked
    assert (request.tool, request.args, request.session) == ("write", {"path": "a"}, "s")
    assert "write" in request.reason


async def test_what_a_model_reads_of_a_refusal():
    model = scripted(call("write", path="a"), "ok")
    out = await w.Agent(model, tools=[write], permissions={"deny": ["write"]}).run("go")
    told = json.loads(out.tool_calls[0].result)
    assert list(told)[:3] == authority.REFUSAL and told["error"] == "permission_denied"
    async with w.Runtime(environ={}, resources=[Product], roles={"x": ["*"]}) as scope:
        with pytest.raises(w.PermissionDenied):
            await scope.resources[Product].search()


async def test_the_receipt_is_in_the_request_and_in_the_transcript():
    rules = {"rules": [{"deny": "write", "rationale": "not here"}]}
    model = scripted(call("write", path="a"), "ok")
    out = await w.Agent(model, tools=[write], approval_policy=rules).run("go")
    told = json.loads(out.tool_calls[0].result)["policyDecision"]
    assert told["rationale"] == "not here" and told["rule"].startswith("rule 0")
    events = [e for e in out.trace["events"] if e["kind"] == "decision"]
    assert events and on_a_page("policyDecision")
