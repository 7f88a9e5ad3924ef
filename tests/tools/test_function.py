"""A function with hints and a docstring is a tool."""

import asyncio
import functools
import gc
import inspect
import weakref
from typing import Annotated, Any, Literal, TypedDict, Unpack, assert_type

import pytest

from tests.tools.helpers import call, context
from windlass.errors import ConfigError
from windlass.tools.function import FunctionTool, as_tool, as_tools, tool
from windlass.tools.registry import tool_registry
from windlass.tools.tool import Tool, ToolContext


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Counter:
    """Counts calls."""

    def __init__(self) -> None:
        self.n = 0

    def step(self, by: int) -> int:
        """Count on."""
        self.n += by
        return self.n

    async def later(self, by: int) -> int:
        self.n += by
        return self.n

    def __call__(self, by: int) -> int:
        return self.step(by)

    @classmethod
    def made(cls, n: int) -> str:
        """Make one."""
        return f"{cls.__name__}{n}"

    @staticmethod
    def apart(n: int) -> int:
        return n

    @tool(side_effect_level="read_only")
    def look(self, wide: bool = False) -> str:
        """Look around."""
        return f"{self.n}{'!' if wide else ''}"


class Asynchronous:
    async def __call__(self, x: int) -> int:
        """Think."""
        return x


def test_a_plain_function_is_a_tool_with_its_name_words_and_schema() -> None:
    made = as_tool(add)
    assert (made.name, made.description) == ("add", "Add two numbers.")
    assert made.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert made.spec.parameters is made.parameters
    assert not made.is_async
    assert made.effect == "plain"


def test_a_decorated_function_is_still_the_function() -> None:
    @tool
    def double(x: int) -> int:
        """Twice."""
        return 2 * x

    assert isinstance(double, FunctionTool)
    assert double(4) == 8
    assert_type(double(4), int)
    assert inspect.signature(double) == inspect.signature(double.__wrapped__)
    assert double.__name__ == "double"


async def test_a_decorated_coroutine_function_can_be_awaited() -> None:
    @tool(name="thrice", keyed=True)
    async def triple(x: int, *, loud: bool = False) -> str:
        return str(3 * x) + ("!" if loud else "")

    answer = await triple(2, loud=True)
    assert_type(answer, str)
    assert answer == "6!"
    assert (triple.name, triple.effect, triple.is_async) == ("thrice", "keyed", True)


def test_the_decorator_takes_every_option() -> None:
    @tool(
        name="look",
        description="See.",
        side_effect_level="read_only",
        kind="search",
        timeout=3,
        returns={"type": "string"},
        annotations={"title": "Look"},
        defer_loading=True,
        namespace="eyes",
        strict=True,
    )
    def f() -> str:
        """Not this."""
        return ""

    assert (f.name, f.description, f.timeout, f.namespace) == ("look", "See.", 3, "eyes")
    assert f.annotations == {"title": "Look", "side_effect_level": "read_only", "kind": "search"}
    assert (f.defer_loading, f.strict, f.effect) == (True, True, "read_only")
    assert f.returns == {"type": "string"}


@pytest.mark.parametrize(
    ("options", "effect"),
    [
        ({}, "plain"),
        ({"keyed": True}, "keyed"),
        ({"transactional": True}, "transactional"),
        ({"transactional": True, "keyed": True}, "transactional"),
        ({"side_effect_level": "none"}, "read_only"),
        ({"side_effect_level": "read_only", "keyed": True}, "read_only"),
        ({"side_effect_level": "network"}, "plain"),
        ({"annotations": {"side_effect_level": "read_only"}}, "read_only"),
    ],
)
def test_the_effect_follows_from_the_options(options: Any, effect: str) -> None:
    assert tool(**options)(add).effect == effect


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"side_effect_level": "readonly"}, "did you mean 'read_only'"),
        ({"side_effect_level": 7}, "none, read_only, workspace_write"),
        ({"timeout": 0}, "positive number of seconds"),
        ({"timeout": True}, "positive number of seconds"),
        ({"timeout": float("nan")}, "positive number of seconds"),
        ({"defer_loading": "yes"}, "defer_loading is True or False"),
        ({"keyed": 1}, "keyed is True or False"),
        ({"name": ""}, "1 to 128"),
        ({"name": "a b"}, "1 to 128"),
        ({"name": "x" * 129}, "1 to 128"),
        ({"name": 3}, "1 to 128"),
        ({"description": 3}, "description is text"),
        ({"namespace": 3}, "namespace is text"),
        ({"kind": 3}, "kind is a word"),
        ({"annotations": [1]}, "annotations is a dict"),
        ({"returns": 7}, "returns is a JSON Schema or a type"),
        ({"returns": {"type": "strng"}}, "JSON Schema is wrong"),
        ({"nmae": "x"}, "did you mean 'name'"),
    ],
)
def test_an_impossible_option_is_refused_at_definition(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tool(**options)(add)


async def test_the_context_is_found_by_annotation_anywhere_and_is_not_in_the_schema() -> None:
    @tool
    async def first(ctx: ToolContext[str], x: int) -> str:
        return f"{ctx.deps}{x}"

    @tool
    def last(x: int, *, where: ToolContext) -> str:
        return f"{where.call_id}{x}"

    @tool
    def perhaps(x: int, c: Annotated[ToolContext[int] | None, "hidden"] = None) -> str:
        return f"{c.session_id}{x}"

    @tool
    def positional(c: ToolContext[Any], x: int, /) -> str:
        return f"{c.caller}{x}"

    for made, expected in [(first, "d1"), (last, "c11"), (perhaps, "s11"), (positional, "ann1")]:
        assert list(made.parameters["properties"]) == ["x"]
        assert made.wants_context
        assert (await made.call({"x": 1}, context("d"))).content == expected
    with pytest.raises(ConfigError, match="two ToolContexts"):
        tool(_two)


def _two(a: ToolContext[Any], b: ToolContext[Any]) -> None: ...


async def test_a_model_cannot_put_itself_in_the_contexts_place() -> None:
    @tool
    def who(ctx: ToolContext[Any]) -> str:
        return ctx.caller

    assert who.prepare({"ctx": {"caller": "root"}}).problems == ("ctx: is not a parameter",)
    assert (await who.call({"ctx": {"caller": "root"}}, context())).content == "ann"


async def test_positional_only_parameters_and_their_defaults() -> None:
    @tool
    def f(a: int, b: int = 10, /, c: int = 100) -> int:
        return a + b + c

    assert (await call(f, a=1, c=0)).content == "11"
    assert (await call(f, a=1, b=2)).content == "103"
    unchecked = await f.call({"b": 2}, context())
    assert (unchecked.outcome, unchecked.content) == ("invalid", "a: is required")


def test_star_args_are_refused_with_the_fix() -> None:
    def f(*names: str) -> None: ...

    with pytest.raises(ConfigError, match=r"tool 'f'.*\*names.*list"):
        as_tool(f)


async def test_keyword_arguments_need_an_annotation() -> None:
    def loose(**rest) -> None: ...

    with pytest.raises(ConfigError, match=r"\*\*rest"):
        as_tool(loose)

    def f(a: int, **rest: float) -> str:
        return f"{a}{sorted(rest.items())}"

    made = as_tool(f)
    assert made.parameters["additionalProperties"] == {"type": "number"}
    assert (await call(made, a=1, z=2.5)).content == "1[('z', 2.5)]"
    assert made.prepare({"a": 1, "z": "q"}).problems == ('z: "q" is not of type "number"',)


class Extra(TypedDict, total=False):
    mode: Literal["a", "b"]
    inner: "Extra"


def test_unpacked_keyword_arguments_are_parameters() -> None:
    def f(**options: Unpack[Extra]) -> None: ...

    schema = as_tool(f).parameters
    assert schema["properties"]["mode"] == {"type": "string", "enum": ["a", "b"]}
    assert not as_tool(f).prepare({"mode": "a", "inner": {"inner": {}}}).problems
    assert as_tool(f).prepare({"inner": {"mode": "x"}}).problems


async def test_partials_hide_what_is_bound() -> None:
    def send(to: str, text: str, key: str, urgent: bool = False) -> str:
        """Send a message."""
        return f"{to}:{text}:{key}:{urgent}"

    bound = functools.partial(send, "ann", key="hunter2")
    made = as_tool(bound)
    assert (made.name, made.description) == ("send", "Send a message.")
    assert list(made.parameters["properties"]) == ["text", "urgent"]
    assert "hunter2" not in str(made.parameters)
    assert (await call(made, text="hi")).content == "ann:hi:hunter2:False"


async def test_methods_and_callable_objects() -> None:
    counter = Counter()
    for made, name, expected in [
        (as_tool(counter.step), "step", "2"),
        (as_tool(counter.later), "later", "4"),
        (as_tool(counter), "Counter", "6"),
        (as_tool(functools.partial(counter.step)), "step", "8"),
    ]:
        assert made.name == name
        assert list(made.parameters["properties"]) == ["by"]
        assert (await call(made, by=2)).content == expected
    assert as_tool(counter).description == "Counts calls."
    assert (await call(as_tool(Counter.made), n=1)).content == "Counter1"
    assert (await call(as_tool(Counter.apart), n=1)).content == "1"
    assert as_tool(Asynchronous()).is_async
    assert (await call(as_tool(Asynchronous()), x=5)).content == "5"


async def test_a_decorated_method_is_bound_to_its_instance() -> None:
    one, other = Counter(), Counter()
    one.n = 7
    assert list(Counter.look.parameters["properties"]) == ["wide"]
    assert_type(one.look(wide=True), str)
    assert one.look(wide=True) == "7!"
    assert (await call(as_tool(one.look), wide=True)).content == "7!"
    assert (await call(as_tool(other.look))).content == "0"
    assert one.look.effect == "read_only"
    with pytest.raises(ConfigError, match=r"method of a class.*thing\.look"):
        as_tool(Counter.look)


async def test_wrapped_functions_keep_their_signature() -> None:
    def loud(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return f"{fn(*args, **kwargs)}!"

        return wrapper

    as_tool(add)  # what is kept with `add` must not be taken for the wrapper's
    made = as_tool(loud(add))
    assert made.parameters == as_tool(add).parameters
    assert (await call(made, a=1)).content == "3!"


async def test_a_synchronous_wrapper_of_a_coroutine_function_is_awaited() -> None:
    async def inner(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert (await call(as_tool(outer), x=1)).content == "2"


def test_generators_are_refused_at_definition() -> None:
    def numbers(n: int):
        yield n

    async def later(n: int):
        yield n

    for fn in (numbers, later):
        with pytest.raises(ConfigError, match="generator.*a list"):
            as_tool(fn)


def test_a_tool_is_made_once_per_function_and_not_kept_alive() -> None:
    def f(x: int) -> int:
        return x

    first = as_tool(f)
    assert as_tool(f) is first
    assert as_tools([f])[0] is first
    dead = weakref.ref(f)
    del f, first
    gc.collect()
    assert dead() is None


def test_bound_methods_share_one_plan() -> None:
    assert as_tool(Counter().step).parameters is as_tool(Counter().step).parameters


def test_tools_by_import_path() -> None:
    assert as_tool("tests.tools.test_function:add").name == "add"
    assert as_tool("tests.tools.test_function:Counter.made").name == "made"
    with pytest.raises(ConfigError, match="did you mean 'add'"):
        as_tool("tests.tools.test_function:ad")
    with pytest.raises(ConfigError, match="no module 'no_such_module'"):
        as_tool("no_such_module:f")
    for wrong in ("os", ":f", "os:"):
        with pytest.raises(ConfigError, match="module:function"):
            as_tool(wrong)


def test_objects_with_as_tool_and_dicts() -> None:
    class Agentish:
        def as_tool(self) -> Tool:
            return Tool("agent", "Ask.", {"q": "string"})

    class Liar:
        def as_tool(self) -> int:
            return 3

    assert as_tool(Agentish()).name == "agent"
    assert as_tool({"name": "x", "description": "y", "parameters": {}}).name == "x"
    with pytest.raises(ConfigError, match="gave int, not a Tool"):
        as_tool(Liar())
    with pytest.raises(ConfigError, match="did you mean 'handler'"):
        as_tool({"name": "x", "handlr": None})
    with pytest.raises(ConfigError, match="needs a name"):
        as_tool({"description": "x"})


@pytest.mark.parametrize("wrong", [3, None, int, Counter, object(), b"os:f"])
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="is not a tool"):
        as_tool(wrong)
    with pytest.raises(ConfigError, match="not of"):
        tool(3)


def test_lists_of_tools() -> None:
    registry = tool_registry([add])
    assert as_tools(None) == ()
    assert [one.name for one in as_tools((add, Tool("b")))] == ["add", "b"]
    assert as_tools(registry) == (as_tool(add),)
    with pytest.raises(ConfigError, match="two tools are called 'add'"):
        as_tools([add, Tool("b"), Tool("add")])
    for wrong in (add, "os:f", Tool("x"), 3, {"name": "x"}):
        with pytest.raises(ConfigError, match=r"tools=\[…\]"):
            as_tools(wrong)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="lambda has no name"):
        as_tool(lambda x: x)
    assert tool(name="f")(lambda x: x).parameters["properties"] == {"x": {}}


def test_a_builtin_that_hides_its_parameters_is_refused() -> None:
    with pytest.raises(ConfigError, match="wrap it in a function"):
        as_tool(max)
