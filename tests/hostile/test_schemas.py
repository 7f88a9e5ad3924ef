"""Tools with broken, endless, huge or malicious schemas and signatures, through whole runs."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import pytest

import windlass as w
from tests.hostile.helpers import (
    Tally,
    id_of,
    readable,
    shown,
    watchdog,
)
from tests.hostile.option_pools import Angry, cycle
from tests.hostile.output_pools import nested
from windlass.errors import ConfigError
from windlass.testing import scripted

HALF = "half \ud83d"
T = TypeVar("T")


def props(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nest(depth: int, leaf: Any = None) -> Any:
    return nested(
        depth, lambda inner: {"type": "array", "items": inner if inner != "core" else leaf or {}}
    )


GOOD: dict[str, Any] = {
    "nothing": {},
    "short": {"a": "string", "b": {"type": "integer", "default": 1}},
    "plain": props(a={"type": "string"}),
    "recursive": {
        **props(a={"$ref": "#/$defs/node"}),
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    },
    "itself": props(a={"$ref": "#"}),
    "wide": props(**{f"p{n}": {"type": "integer"} for n in range(1000)}),
    "many words": props(a={"enum": [f"v{n}" for n in range(10_000)]}),
    "deep": props(a=nest(60)),
    "many ways": props(a={"anyOf": [{"const": n} for n in range(1000)]}),
    "a way of ways": props(
        a=nested(12, lambda v: {"anyOf": [v if v != "core" else {"type": "null"}] * 2})
    ),
    "pattern": props(a={"type": "string", "pattern": "^a+$"}),
    "anchors of Python": props(a={"type": "string", "pattern": r"\A[a-z]+\Z"}),
    "odd keys": props(**{"": {}, "$ref": {}, "a/b~c%": {"type": "string"}, "ß": {}}),
    "formats": props(a={"type": "string", "format": "no-such-format"}),
    "large numbers": props(a={"type": "integer", "maximum": 10**18, "multipleOf": 3}),
}
BAD: dict[str, Any] = {
    "number": 5,
    "text": "string",
    "list": [1],
    "bytes": b"x",
    "angry": Angry(),
    "type": {"type": "objekt"},
    "array at the top": {"type": "array"},
    "types": props(a={"type": ["string", 5]}),
    "property": props(a=5),
    "properties": {"type": "object", "properties": 5},
    "required": {**props(a={}), "required": "a"},
    "ways": props(a={"anyOf": 5}),
    "nowhere": props(a={"$ref": "#/$defs/nobody"}),
    "network": props(a={"$ref": "http://127.0.0.1:9/schema.json"}),
    "file": props(a={"$ref": "file:///etc/passwd"}),
    "broken pattern": props(a={"pattern": "("}),
    "pattern of a number": props(a={"pattern": 5}),
    "objects": props(a={"default": object()}),
    "cycle": props(a={"default": cycle()}),
    "no number": props(a={"minimum": "x"}),
    "negative": props(a={"minLength": -1}),
    "half": props(a={"description": HALF}),
    "half a key": props(**{HALF: {}}),
    "endless": props(a=nest(100_000)),
    "tuple keys": props(a={(1,): 2}),
    "shorthand": {"a": "strng"},
    "shorthand of a number": {"a": 5},
    "for ever": props(a={"type": "string", "pattern": r"(?P<n>a+)+(?P=n)$"}),
    "for ever with a note": props(a={"type": "string", "pattern": r"(?#x)(a+)+$"}),
    "for ever in ranges": props(a={"type": "string", "pattern": r"(a{0,1000}){0,1000}$"}),
    "keys for ever": {"type": "object", "patternProperties": {r"(?#x)(a|a)*$": {}}},
}
REDOS = [
    r"(a+)+$",
    r"^(a+)+$",
    r"(a|aa)+$",
    r"^(a|a)*$",
    r"(a*)*b",
    r"^(\w+\s?)*$",
    r"(x+x+)+y",
    r"(a+)+\Z",
    r"\A(a|a)*\Z",
    r"^(?=(a+)+$)",
    r"(?=(a+)+b)a",
    r"^((a+)+)\1$",
    r"(.*)*\1x",
    r"(?<!b)(a+)+$",
    r"a{1,1000}{1,1000}$",
    r"(?s:.*a){25}",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(?i)(a+)+$",
    r"(a?){30}a{30}$",
    r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}$",
    r"(([^a]*a){20}[^a]*)$",
    r"(.+)+$",
    r"^(.*?,){11}P",
    r"(\d+)*\d+$",
    r"^(\s+)+$",
    r"(a|b|ab)*c",
    r"((a*)*)*$",
    r"([a-z]+)*=",
    r"^(a?){50}$",
    r"\s*(\s*)*\S\Z",
    r"(?P<n>a+)+(?P=n)$",
    r"(?>a+)+$",
    r"(?#x)(a+)+$",
    r"(a{0,1000}){0,1000}$",
    r"a*a*a*a*a*b\Z",
    r"(?m)^(a+)+\Z",
    r"(?>a)*a*b",
    r"a*+b",
    r".*.*.*=.*(?>x)",
    r"(?>x)?\s+$",
]
PATTERNS = [
    (r"^a+$", "aaa", "ab"),
    (r"\A[a-z]+\Z", "abc", "abc1"),
    (r"^(?!x).+$", "yes", "xno"),
    (r"^(a|b)\1$", "aa", "ab"),
    (r"(?<=x)y", "xy", "zy"),
    (r"^(?P<n>a)$", "a", "b"),
    (r"\d{3}\Z", "x123", "123x"),
    (r"(?>a|ab)c", "ac", "b"),
]
TEXTS = [
    "a" * 30 + "!",
    "a" * 5000,
    " " * 3000 + "x",
    "ab" * 2000,
    "a" * 100_000,
    "1" * 64,
    ",".join("1" * 60),
]


def arguments(rng: random.Random) -> Any:
    """What a model might write for any schema."""
    values: list[Any] = [
        1,
        "a",
        None,
        True,
        1.5,
        [],
        {},
        [1],
        {"next": {"next": {}}},
        "x" * 1000,
        -(10**18),
        "a" * 40 + "!",
        nested(40, lambda v: [v]),
        nested(40, lambda v: {"next": v}),
        {"a": {"a": {}}},
        [[[]]],
        "v5000",
        999,
    ]
    names = ["a", "b", "p1", "nobody", "", "$ref", "a/b~c%", "ß"]
    return {name: rng.choice(values) for name in rng.sample(names, rng.randrange(3))}


async def run_with(tool: Any, calls: list[w.ToolCall], what: str) -> Any:
    model = scripted(calls, "end")
    agent = w.Agent(model, tools=[tool])
    with watchdog(what):
        out = await agent.run("go", session_id=id_of(what))
    assert out.status == "done", f"{what}: {out.error}"
    await readable(out._run.store, id_of(what))
    return out


@pytest.mark.parametrize("mode", ["strict", "lenient", "none"])
async def test_schemas(mode: Any) -> None:
    met = Tally(f"schemas, {mode}")
    rng = random.Random(1)
    for what, schema in {**GOOD, **BAD}.items():
        try:
            with watchdog(what):
                tool = w.Tool("t", "A tool.", schema, lambda args: "fine")
        except ConfigError as error:
            assert what in BAD, f"{what}: {error}"
            assert "'t'" in str(error) and len(str(error)) < 1500, what
            with pytest.raises(ConfigError):  # and the same for a tool written as a dict
                await w.Agent(
                    scripted("x"), tools=[{"name": "t", "parameters": schema, "handler": print}]
                ).run("go")
            met.invalid(error)
            continue
        assert what in GOOD, f"accepted {what}"
        model = scripted([w.ToolCall(f"c{n}", "t", arguments(rng)) for n in range(15)], "end")
        agent = w.Agent(model, tools=[tool], tool_arg_validation=mode)
        with watchdog(what):
            out = await agent.run("go", session_id=id_of(what))
        assert out.status == "done", f"{what}: {out.error}"
        await readable(out._run.store, id_of(what))
        outcomes = {record.outcome for record in out.tool_calls}
        assert outcomes <= {"ok", "invalid"}, f"{what}: {outcomes}"
        met.valid("accepted")
    met.report()


async def test_patterns_that_never_end() -> None:
    """Each is answered at once, whatever the text: matched, refused as too long, or no schema at all."""
    met = Tally("malicious patterns")
    for pattern in REDOS:
        try:
            with watchdog(pattern):
                tool = w.Tool(
                    "t", "", props(a={"type": "string", "pattern": pattern}), lambda args: "fine"
                )
                keys = w.Tool(
                    "k", "", {"type": "object", "patternProperties": {pattern: {}}}, lambda args: 1
                )
        except ConfigError as error:
            met.invalid(error)
            continue
        for text in TEXTS:
            with watchdog(f"{pattern} on {text[:20]}"):
                tool.prepare({"a": text})
                keys.prepare({text: 1})
                tool.prepare({"a": text}, "lenient")
        calls = [w.ToolCall(f"c{n}", "t", {"a": text}) for n, text in enumerate(TEXTS)]
        out = await run_with(tool, calls, pattern)
        met.invalid("checked")
        assert {record.outcome for record in out.tool_calls} <= {"ok", "invalid"}
    for pattern, fits, not_ in PATTERNS:
        tool = w.Tool("t", "", props(a={"type": "string", "pattern": pattern}), lambda args: "fine")
        assert not tool.prepare({"a": fits}).problems, pattern
        assert tool.prepare({"a": not_}).problems, pattern
        met.valid("right")
    met.report(30)


# --------------------------------------------------------------------------- signatures


class Box(Generic[T]):
    """A class that no schema knows."""


class Links:
    """A method and an object that can be called."""

    def method(self, a: int) -> str:
        """A method."""
        return "fine"

    def __call__(self, a: int = 1) -> str:
        """An object."""
        return "fine"


def _annotated(hint: Any, default: Any = ...) -> Callable[..., Any]:
    def made(a: Any = None) -> str:
        """A tool."""
        return "fine"

    made.__annotations__["a"] = hint
    made.__defaults__ = None if default is ... else (default,)
    return made


def _wide(count: int) -> Callable[..., Any]:
    names = ", ".join(f"p{n}: int = {n}" for n in range(count))
    scope: dict[str, Any] = {}
    exec(f"def wide({names}) -> str:\n    'Wide.'\n    return 'fine'", scope)
    return scope["wide"]


def _documented(words: str) -> Callable[..., Any]:
    def made(a: int = 1) -> str:
        return "fine"

    made.__doc__ = words
    return made


async def _stream(a: int = 1):
    """An async generator."""
    yield a


GOOD_TOOLS: dict[str, Callable[[], Any]] = {
    "plain": lambda: _annotated(int),
    "method": lambda: Links().method,
    "object": lambda: w.tool(name="obj")(Links()),
    "partial": lambda: w.tool(name="part")(functools.partial(_annotated(int), a=5)),
    "wide": lambda: _wide(200),
    "half a default": lambda: _annotated(str, HALF),
    "mutable default": lambda: _annotated(list[int], []),
    "no annotation": lambda: _documented("Without hints."),
    "long words": lambda: _documented("words " * 50_000),
    "odd words": lambda: _documented("\x00\x1b[2J\u202e {x} %s </tool>"),
    "broken sections": lambda: _documented("Sum.\n\nArgs:\n  a (\n  :param\nReturns\n-----\n  :"),
    "literal": lambda: _annotated(Literal["a", 1, None]),
}
BAD_TOOLS: dict[str, Callable[[], Any]] = {
    "class": lambda: Links,
    "stream": lambda: w.tool(name="stream")(_stream),
    "generic": lambda: _annotated(Box[int]),
    "callable": lambda: _annotated(Callable[[int], int]),
    "unknown name": lambda: _annotated("NoSuchType"),
    "code": lambda: _annotated("__import__('os').system('true')"),
    "broken text": lambda: _annotated("list["),
    "module": lambda: random,
    "unbound method": lambda: w.tool(Links.method),
    "lambda": lambda: lambda a: a,
    "half a word": lambda: _documented(HALF),
    "half a literal": lambda: _annotated(Literal["\ud800"]),
    "odd name": lambda: w.tool(name="a b")(_annotated(int)),
    "long name": lambda: w.tool(name="x" * 129)(_annotated(int)),
    "name of a number": lambda: w.tool(name=5)(_annotated(int)),
    "odd option": lambda: w.tool(timout=5)(_annotated(int)),
    "odd time": lambda: w.tool(timeout=float("nan"))(_annotated(int)),
    "odd level": lambda: w.tool(side_effect_level="some")(_annotated(int)),
    "odd returns": lambda: w.tool(returns={"type": "strng"})(_annotated(int)),
    "description of bytes": lambda: w.tool(description=b"x")(_annotated(int)),
    "description of half": lambda: w.Tool("t", HALF, {}, print),
    "number": lambda: 5,
    "angry": Angry,
    "handler with three": lambda: w.Tool("t", "", {}, lambda a, b, c: 1),
    "handler of text": lambda: w.Tool("t", "", {}, "print"),
    "keyed and read-only": lambda: w.tool(keyed="yes")(_annotated(int)),
}


async def test_signatures() -> None:
    met = Tally("signatures")
    for what, make in {**GOOD_TOOLS, **BAD_TOOLS}.items():
        model = scripted("never")
        try:
            with watchdog(what):
                tools = [make()]
                agent = w.Agent(model, tools=tools)
                name = agent.plan.frame.tools[0].name
        except ConfigError as error:
            assert what in BAD_TOOLS, f"{what}: {error}"
            assert str(error) and len(str(error)) < 2000
            assert not model.requests
            met.invalid(error)
            continue
        except BaseException as error:
            raise AssertionError(f"{what}: {type(error).__name__} {shown(error)}") from error
        assert what in GOOD_TOOLS, f"accepted {what}"
        values: list[Any] = [
            {},
            {"a": 1},
            {"a": "x"},
            {"a": [1]},
            {"b": 2},
            {"a": None},
            {"a": {"b": []}},
        ]
        calls = [w.ToolCall(f"c{n}", name, value) for n, value in enumerate(values)]
        out = await run_with(tools[0], calls, what)
        assert {r.outcome for r in out.tool_calls} <= {"ok", "invalid", "error"}, what
        met.valid("ran")
    met.report()
