"""Registries, and tools written by hand."""

from typing import Any

import pytest

from tests.tools.helpers import context
from windlass.errors import ConfigError
from windlass.tools.function import as_tool, as_tools
from windlass.tools.registry import ToolRegistry, tool_define, tool_registry, tool_select
from windlass.tools.tool import Tool, ToolContext


def add(a: int) -> int:
    """Add one."""
    return a + 1


def three() -> ToolRegistry:
    tools = tool_registry()
    tools = tool_define(
        tools,
        "read",
        "Read a file",
        {
            "parameters": {"path": {"type": "string"}},
            "returns": {"type": "string"},
            "handler": None,
        },
    )
    tool_define(tools, "run", "Run", parameters={"command": "string"}, handler=lambda args: "ok")
    tools.add(add)
    return tools


def test_everything_can_be_said_by_name() -> None:
    tools = tool_define(registry=tool_registry(), name="x", description="y", keyed=True)
    assert tools["x"].keyed


def test_define_returns_the_registry_and_fills_it() -> None:
    tools = three()
    assert tools.names() == ["read", "run", "add"]
    assert len(tools) == 3 and "read" in tools and "write" not in tools
    assert as_tool(add) in tools
    assert [one.name for one in tools] == ["read", "run", "add"]
    assert tools["read"].handler is None
    assert tools.get("read") is tools["read"]
    assert tools.get("write") is None
    assert repr(tools) == "<ToolRegistry read, run, add>"


def test_definitions_as_a_model_sees_them() -> None:
    first = three().to_tool_defs()[0]
    assert first == {
        "name": "read",
        "description": "Read a file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    }


def test_tools_added_at_run_time_are_told_apart() -> None:
    tools = three()
    tools.add(Tool("late"), runtime=True)
    assert [one["name"] for one in tools.to_runtime_tool_defs()] == ["late"]
    assert len(tools.to_tool_defs()) == 4
    assert len(tool_select(tools, ["late", "run"]).to_runtime_tool_defs()) == 1


def test_select_makes_a_new_registry() -> None:
    tools = three()
    some = tool_select(tools, ["run", "read"])
    assert some.names() == ["run", "read"]
    assert len(tools) == 3
    assert tool_select(tools, "run").names() == ["run"]
    with pytest.raises(ConfigError, match="no tool 'raed'; did you mean 'read'"):
        tool_select(tools, ["raed"])


def test_an_agent_keeps_the_tools_of_the_moment() -> None:
    tools = three()
    taken = as_tools(tools)
    tool_define(tools, "later", "Later")
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"handlr": None}, "did you mean 'handler'"),
        ({"defer_loading": "yes"}, "defer_loading is True or False"),
        ({"parameters": {"a": {"type": "strng"}}}, "tool 'x': its JSON Schema is wrong"),
        ({"handler": 3}, "handler is fn"),
        ({"timeout": -1}, "positive number"),
    ],
)
def test_wrong_definitions(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tool_define(tool_registry(), "x", "y", options)


def test_a_name_is_used_once() -> None:
    with pytest.raises(ConfigError, match="has a tool 'add' already"):
        three().add(add)


# --------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("given", "properties", "required"),
    [
        (None, {}, None),
        ({}, {}, None),
        ({"a": {"type": "string"}}, {"a": {"type": "string"}}, ["a"]),
        (
            {"a": "string", "b": "integer"},
            {"a": {"type": "string"}, "b": {"type": "integer"}},
            ["a", "b"],
        ),
        ({"a": {"type": "string", "required": False}}, {"a": {"type": "string"}}, None),
        (
            {"a": {"type": "string", "default": "x"}},
            {"a": {"type": "string", "default": "x"}},
            None,
        ),
        ({"type": {"type": "string"}}, {"type": {"type": "string"}}, ["type"]),
        (
            {"type": "string", "path": "string"},
            {"type": {"type": "string"}, "path": {"type": "string"}},
            ["type", "path"],
        ),
        ({"properties": {"type": "object"}}, {"properties": {"type": "object"}}, ["properties"]),
        ({"required": {"type": "boolean"}}, {"required": {"type": "boolean"}}, ["required"]),
        ({"type": "object"}, {}, None),
        ({"properties": {"a": {"type": "string"}}}, {"a": {"type": "string"}}, None),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"k": True}}}},
            {"k": True},
            None,
        ),
    ],
)
def test_parameters_in_full_and_in_short(given: Any, properties: Any, required: Any) -> None:
    made = Tool("t", parameters=given)
    assert made.parameters["type"] == "object"
    assert made.parameters["properties"] == properties
    assert made.parameters.get("required") == required
    assert "$ref" not in made.parameters


def test_the_schema_given_is_copied() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    made = Tool("t", parameters=schema)
    schema["properties"]["a"]["type"] = "integer"
    assert made.parameters["properties"]["a"] == {"type": "string"}


@pytest.mark.parametrize(
    "given",
    [
        {"type": "array", "items": {}},
        {"type": "object", "properties": 5},
        {"type": "object", "required": "a"},
        {"a": 5},
        {"a": "strin"},
        {"a": {"type": "strng"}},
        {"a": {"type": "string", "pattern": "("}},
        {"a": {"$ref": "#/$defs/none"}},
        {"a": object()},
        {"\ud800": {"type": "string"}},
        [1],
        "string",
    ],
)
def test_a_wrong_schema_names_the_tool(given: Any) -> None:
    with pytest.raises(ConfigError, match="tool 'broken'"):
        Tool("broken", parameters=given)


async def test_handlers_take_the_arguments_and_perhaps_the_context() -> None:
    async def later(args: dict[str, Any], ctx: ToolContext[Any]) -> str:
        return f"{args['a']} {ctx.call_id}"

    class Object:
        async def __call__(self, args: dict[str, Any]) -> str:
            return str(args["a"])

    def optional(args: dict[str, Any], ctx: Any = None) -> str:
        return f"{args['a']} {ctx.call_id}"

    def other(args: dict[str, Any], loud: bool = False) -> str:
        return f"{args['a']} {loud}"

    for handler, expected in [
        (lambda args: args["a"], "1"),
        (lambda args, ctx: ctx.call_id, "c1"),
        (later, "1 c1"),
        (Object(), "1"),
        (optional, "1 c1"),
        (other, "1 False"),
        (str, "{'a': 1}"),
        (lambda *args: len(args), "1"),
    ]:
        made = Tool("t", parameters={"a": "integer"}, handler=handler)
        assert (await made.call({"a": 1}, context())).content == expected


def test_a_handler_of_another_shape_is_refused() -> None:
    def typed(a: int, b: int, c: int) -> None: ...

    def keyword(args: Any, *, key: str) -> None: ...

    for wrong in (typed, keyword, lambda: 0):
        with pytest.raises(ConfigError, match=r"fn\(args\).*@windlass.tool"):
            Tool("t", handler=wrong)


async def test_a_handler_gets_its_own_copy() -> None:
    arguments = {"a": {"deep": [1]}}

    def spoil(args: dict[str, Any]) -> None:
        args["a"]["deep"].clear()
        args.clear()

    await Tool("t", parameters={"a": "object"}, handler=spoil).call(arguments, context())
    assert arguments == {"a": {"deep": [1]}}


async def test_a_tool_without_handler_is_for_the_host() -> None:
    made = Tool("t")
    assert made.handler is None
    assert (await made.call({}, context())).is_error


def test_names() -> None:
    for good in ("a", "a" * 128, "mcp:files.read-all_2"):
        assert Tool(good).name == good
    for bad in ("", "a b", "é", "a/b", "a" * 129, "a\n"):
        with pytest.raises(ConfigError, match="1 to 128"):
            Tool(bad)
    with pytest.raises(ConfigError, match="did you mean 'keyed'"):
        Tool("t", keyd=True)
