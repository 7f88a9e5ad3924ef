"""The walk over every name of the heart: it is there, typed and documented, or it is refused."""

from __future__ import annotations

import importlib
import inspect
import typing
from typing import Any, get_args

import msgspec
import pytest

import windlass as w
from tests import option_areas
from tests.names import core as heart
from tests.names import hands, models
from windlass import errors, events, messages
from windlass.engine.keywords import LoopOptions
from windlass.testing import scripted


def documented(thing: Any, name: str) -> None:
    doc = inspect.getdoc(thing)
    assert doc and len(doc) > 10, f"{name} has no docstring"


def typed(function: Any, name: str) -> None:
    """Every parameter and the answer have a type."""
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name not in ("self", "_", "cls"):
            assert parameter.annotation is not parameter.empty, (
                f"{name}({parameter.name}) has no type"
            )
    assert signature.return_annotation is not signature.empty, f"{name} -> has no type"


@pytest.mark.parametrize("name", heart.FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w._HOME
    documented(function, name)
    given = list(inspect.signature(function).parameters)
    wanted = heart.FUNCTIONS[name].split()
    assert given[: len(wanted)] == wanted
    if name != "tool":  # its overloads have the types
        typed(function, name)


@pytest.mark.parametrize("name", heart.CLASSES)
def test_a_class_and_its_parts(name: str):
    kind = getattr(w, name)
    assert name in w._HOME and isinstance(kind, type)
    documented(kind, name)
    known = set(dir(kind)) | set(getattr(kind, "__annotations__", {}))
    if name == "Abort":
        known |= set(vars(w.Abort()))
    if name == "Runtime":
        known |= set(inspect.signature(kind).parameters)
    for part in heart.CLASSES[name].split():
        assert part in known, f"{name}.{part}"
        member = inspect.getattr_static(kind, part, None)
        if inspect.isfunction(member):
            documented(member, f"{name}.{part}")
            typed(member, f"{name}.{part}")
        elif isinstance(member, property):
            documented(member, f"{name}.{part}")


@pytest.mark.parametrize("name", heart.ERRORS)
def test_an_error_has_its_place_in_the_tree(name: str):
    kind = getattr(w, name)
    assert kind is getattr(errors, name)
    parent = Exception if heart.ERRORS[name] == "Exception" else getattr(w, heart.ERRORS[name])
    assert issubclass(kind, parent)
    documented(kind, name)
    assert name in (errors.__doc__ or ""), "the tree at the top of the file"


def test_an_error_carries_its_trace():
    error = w.BudgetExceeded("spent")
    assert (error.trace, error.session_id) == (None, None)


@pytest.mark.parametrize("name", [o for o in heart.LOOP_OPTIONS if o != "system"])
def test_a_loop_option_has_a_type(name: str):
    assert name in LoopOptions.__annotations__


def test_there_is_no_loop_option_beyond_the_list():
    extra = set(LoopOptions.__annotations__) - set(heart.LOOP_OPTIONS)
    areas = option_areas.JUDGEMENT | option_areas.CONTEXT | option_areas.AUTHORITY
    assert extra == set(models.TURN_OPTIONS) | areas


async def test_the_result_has_every_field():
    out = await w.agent_loop("go", model=scripted(then=w.ServerError("x")))
    for field in heart.LLM_FIELDS:
        assert isinstance(getattr(out.llm, field), int)
    for field in heart.TOOLS_FIELDS:
        assert getattr(out.tools, field) is not None
    assert out.error is not None and set(out.error) == set(heart.ERROR_FIELDS)
    assert set(out.transcript) == set(heart.TRANSCRIPT_FIELDS)


@pytest.mark.parametrize("name", heart.SUPERSEDED)
async def test_a_superseded_field_names_its_successor(name: str):
    out = await w.agent_loop("go", model=scripted("x"))
    with pytest.raises(AttributeError, match=f"result.{heart.SUPERSEDED[name]}"):
        getattr(out, name)
    assert name not in out.to_dict()


async def test_an_unknown_field_names_the_nearest():
    out = await w.agent_loop("go", model=scripted("x"))
    with pytest.raises(AttributeError, match="'visible_text'"):
        _ = out.visibel_text
    agent = await w.Agent(scripted("x")).run("go")
    with pytest.raises(AttributeError, match="'token_usage'"):
        _ = agent.tokens_usage


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(AttributeError, match="'agent_loop'"):
        _ = w.agent_lop
    with pytest.raises(AttributeError, match="'scripted'"):
        _ = w.testing.scriptd


@pytest.mark.parametrize("tag", heart.BLOCKS)
def test_a_block_has_its_tag(tag: str):
    tags = {kind.__struct_config__.tag for kind in get_args(messages.Block)}
    assert tag in tags


def test_roles_and_levels():
    from windlass.tools.tool import SideEffectLevel

    assert set(get_args(messages.Role)) == set(heart.ROLES)
    assert set(get_args(SideEffectLevel)) == set(heart.SIDE_EFFECTS)


@pytest.mark.parametrize("kind", heart.EVENTS)
def test_an_event_has_its_name(kind: str):
    tags = {one.__struct_config__.tag: one for one in get_args(events.Event)}
    assert kind in tags
    documented(tags[kind], kind)


def test_every_entry_can_be_read_back():
    for kind in get_args(events.JournalEntry):
        assert issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen, kind
        documented(kind, kind.__name__)


@pytest.mark.parametrize("key", heart.MOCK_KEYS)
def test_a_mock_key(key: str):
    from windlass.models.mock import MockEntry

    assert key in MockEntry.__struct_fields__


def test_an_unknown_mock_key_names_the_nearest():
    with pytest.raises(w.ConfigError, match="'consume_match'"):
        w.llm_mock(text="x", consume_mach=True)


async def test_a_recorded_mock_call():
    await w.llm_call("go", provider="mock")
    [seen] = w.llm_mock_calls()
    for field in heart.MOCK_CALL_FIELDS:
        assert hasattr(seen, field) and field in seen


async def test_a_session_has_its_family():
    session = await w.agent_session_open("s")
    for field in heart.SESSION_FIELDS:
        assert hasattr(session, field)


@pytest.mark.parametrize("name", heart.TESTING)
def test_what_tests_need(name: str):
    testing = importlib.import_module("windlass.testing")
    documented(getattr(testing, name), name)
    assert name in dir(testing)


def test_the_blocking_names():
    sync = importlib.import_module("windlass.sync")
    blocking = {name for name in heart.FUNCTIONS if inspect.iscoroutinefunction(getattr(w, name))}
    assert blocking and blocking <= set(dir(sync))


def test_sync_and_testing_are_modules_of_the_package():
    assert inspect.ismodule(w.sync) and inspect.ismodule(w.testing) and inspect.ismodule(w.errors)


@pytest.mark.parametrize("command", heart.COMMANDS)
def test_a_command(command: str):
    import click

    from windlass.cli.main import main

    found: Any = _group(main)
    for word in command.split("|"):
        found = found.get_command(click.Context(found), word)
        assert found is not None, command
    assert found.get_short_help_str(), f"windlass {command} has no help"


def _group(main: Any) -> Any:
    import click

    if isinstance(main, click.Group):
        return main
    module = importlib.import_module("windlass.cli.main")
    return next(value for value in vars(module).values() if isinstance(value, click.Group))


def test_the_store_section_is_registered():
    from windlass.config.loader import load
    from windlass.store.open import StoreConfig

    assert load(env={}).get(StoreConfig) is not None


@pytest.mark.parametrize("name", sorted([*w._HOME, *w._MODULES]))
def test_every_public_name_is_there_and_documented(name: str):
    value = getattr(w, name)
    if not isinstance(value, (type, typing._UnionGenericAlias)) and not callable(value):  # type: ignore[attr-defined]
        known = inspect.ismodule(value) or isinstance(value, w.Tool) or name in hands.CONSTANTS
        assert known or typing.get_origin(value) is not None, name
        return
    if isinstance(value, type) or inspect.isfunction(value):
        documented(value, name)
