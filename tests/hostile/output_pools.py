"""What a tool might return or raise: things a journal can hold, and things that it cannot."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import random
import uuid
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec

import windlass as w
from tests.hostile.option_pools import Angry, cycle

BRACKETS = 100_000
MEGABYTES = 10_000_000


class Tag(enum.Enum):
    RED = "red"
    BAD = ("a", object)


@dataclasses.dataclass
class Node:
    left: Any
    right: Any = None


class Record(msgspec.Struct):
    a: Any
    b: Any = None


class Sly(Exception):
    """Its words are an error."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Quiet(BaseException):
    """No Exception."""


class Liar:
    """It says that it is something else."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Endless(Mapping[str, int]):
    """A mapping without end."""

    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"k{number}"

    def __len__(self) -> int:
        return 1 << 62


class Wide(Sequence[int]):
    """A sequence without end."""

    def __getitem__(self, index: Any) -> Any:
        return index

    def __len__(self) -> int:
        return 1 << 40


class Dumper:
    """Looks like a pydantic model, and gives itself again."""

    def model_dump(self, mode: str = "") -> Any:
        return self


class Lister:
    """Looks like an array, and gives itself again."""

    def tolist(self) -> Any:
        return [self, self]


class Ring(UserDict[str, Any]):
    """A mapping that holds itself."""


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = wrap(value)
    return value


def ring() -> Ring:
    made = Ring()
    made["self"] = made
    return made


def dict_cycle() -> dict[str, Any]:
    made: dict[str, Any] = {"a": [1]}
    made["a"].append(made)
    return made


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> int:
    return 1


Point = namedtuple("Point", "x y")

GOOD: dict[str, Callable[[], Any]] = {
    "text": lambda: "plain",
    "unicode": lambda: "ß 漢字 😀 \u202e \u0000 \x1b[31m",
    "none": lambda: None,
    "int": lambda: 5,
    "float": lambda: 1.5,
    "list": lambda: [1, "a", None, {"b": [True]}],
    "dict": lambda: {"a": 1, "b": [1, 2]},
    "date": lambda: datetime.date(2025, 1, 31),
    "uuid": lambda: uuid.UUID(int=5),
    "decimal": lambda: decimal.Decimal("1.5"),
    "enum": lambda: Tag.RED,
    "dataclass": lambda: Node(1, [2]),
    "struct": lambda: Record({"x": 1}),
    "named tuple": lambda: Point(1, 2),
    "path": lambda: PurePosixPath("a/b"),
    "set": lambda: {1},
    "deque": lambda: deque([1]),
    "result": lambda: w.ToolResult(content="mine"),
    "image": lambda: w.Image(url="https://x.invalid/a.png"),
    "ten megabytes": lambda: "x" * MEGABYTES,
    "many rows": lambda: [{"id": n, "name": f"row {n}"} for n in range(20_000)],
}
BAD: dict[str, Callable[[], Any]] = {
    "lone surrogate": lambda: "half \ud83d",
    "lone surrogates inside": lambda: {"\ud800": ["\udfff"]},
    "ten megabytes of halves": lambda: "\ud83d" * (MEGABYTES // 10),
    "nan": lambda: float("nan"),
    "nan inside": lambda: {"a": [float("nan"), float("inf"), -float("inf")]},
    "brackets": lambda: nested(BRACKETS, lambda v: [v]),
    "braces": lambda: nested(BRACKETS, lambda v: {"a": v}),
    "tuples": lambda: nested(BRACKETS, lambda v: (v,)),
    "deep dataclass": lambda: nested(BRACKETS, Node),
    "deep struct": lambda: nested(5000, Record),
    "cycle": cycle,
    "dict cycle": dict_cycle,
    "ring": ring,
    "angry": Angry,
    "angry inside": lambda: [Angry(), {"a": Angry()}],
    "angry key": lambda: {Angry(): 1},
    "bytes": lambda: b"\xff\xfe\x00",
    "bytes inside": lambda: {"a": b"\xff"},
    "bytearray": lambda: bytearray(b"\xff"),
    "memoryview": lambda: memoryview(b"abc"),
    "generator": generator,
    "coroutine": coroutine,
    "iterator": lambda: iter([1]),
    "open iterator": lambda: map(str, [1]),
    "huge int": lambda: 10**5000,
    "huge int inside": lambda: {"a": [10**5000, -(10**400)]},
    "bomb": lambda: nested(30, lambda v: [v, v]),
    "wide bomb": lambda: nested(5, lambda v: [v] * 1000),
    "dict bomb": lambda: nested(40, lambda v: {"l": v, "r": v}),
    "dataclass bomb": lambda: nested(40, lambda v: Node(v, v)),
    "tuple bomb": lambda: nested(35, lambda v: (v, v)),
    "mapping bomb": lambda: nested(30, lambda v: MappingProxyType({"l": v, "r": v})),
    "text bomb": lambda: ["x" * MEGABYTES] * 1000,
    "key bomb": lambda: [{"k" * 1_000_000: 1}] * 10_000,
    "odd keys": lambda: {(1, 2): 3, None: 4, 1.5: 5, frozenset(): 6},
    "same keys": lambda: {1: "a", "1": "b", 2.0: "c"},
    "objects": lambda: [object(), type, print, ..., NotImplemented],
    "namespace": lambda: SimpleNamespace(a=Angry()),
    "default dict": lambda: defaultdict(list, {1: [object()]}),
    "ordered": lambda: OrderedDict({(1,): 1}),
    "odd enum": lambda: Tag.BAD,
    "liar": Liar,
    "endless": Endless,
    "wide": Wide,
    "dumper": Dumper,
    "lister": Lister,
    "module": lambda: random,
    "exception": lambda: ValueError("returned, not raised"),
    "result of junk": lambda: w.ToolResult(content=Angry()),
    "result of halves": lambda: w.ToolResult(content="\ud800", name="\udfff", id="\ud83d"),
    "result of lists": lambda: w.ToolResult(content=[w.Text("\ud800"), Angry(), 5]),
    "result of another outcome": lambda: w.ToolResult(content="x", outcome="nonsense"),
    "result that is an error of its own": lambda: w.ToolResult(content="x", is_error="yes"),
    "text of junk": lambda: w.Text(5),
    "image of junk": lambda: w.Image(data=b"\xff", media_type=5),
    "parked without a key": lambda: w.Parked("later"),
    "images and junk": lambda: [w.Image(url="\ud800"), Angry(), cycle()],
    "control characters": lambda: "\x00\x01\x1b]0;x\x07\x7f\x9b\u2028\ufeff",
}
RAISED: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: ValueError("no"),
    "empty": ValueError,
    "sly": Sly,
    "quiet": lambda: Quiet("not an Exception"),
    "exit": lambda: SystemExit(3),
    "stop": lambda: StopIteration(5),
    "async stop": StopAsyncIteration,
    "recursion": RecursionError,
    "memory": MemoryError,
    "long": lambda: ValueError("x" * MEGABYTES),
    "halves": lambda: ValueError("\ud800"),
    "control": lambda: ValueError("\x00\x1b[2J"),
    "objects": lambda: ValueError(Angry(), cycle()),
    "group": lambda: ExceptionGroup("many", [ValueError(str(n)) for n in range(100)]),
    "named oddly": lambda: type("Odd\x1b\n" * 100, (Exception,), {})("x"),
    "retry": lambda: w.Retry("\ud800 again"),
    "ours": lambda: w.ConfigError("raised by a tool"),
    "key": lambda: KeyError("\ud800"),
    "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff" * 1000, 0, 1, "bad"),
    "os": lambda: OSError(5, "x" * 100_000, "\udcff"),
    "cause": lambda: _caused(),
}


def _caused() -> BaseException:
    error = ValueError("top")
    error.__cause__ = error.__context__ = error
    return error
