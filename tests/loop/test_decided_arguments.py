"""Over any stack of rewrites, the arguments in a decision's digest are those that the handler gets."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from windlass.events import ToolDecided
from windlass.loop.plan import digest_of
from windlass.testing import call, scripted

Arguments = dict[str, Any]
_SCHEMA = {
    "to": {"type": "string"},
    "cents": {"type": "integer"},
    "lines": {"type": "array", "items": {"type": "object"}},
}


# --------------------------------------------------------------------------- what rewrites


def set_to(arguments: Arguments) -> None:
    arguments["to"] = "eve"


def add_one(arguments: Arguments) -> None:
    arguments["cents"] = arguments.get("cents", 0) + 1


def change_inside(arguments: Arguments) -> None:
    for line in arguments.get("lines", []):
        line["text"] = "changed"


def add_line(arguments: Arguments) -> None:
    arguments.setdefault("lines", []).append({"text": "more"})


def drop(arguments: Arguments) -> None:
    arguments["lines"] = []


def nothing(arguments: Arguments) -> None:
    pass


CHANGES: list[Callable[[Arguments], None]] = [
    set_to,
    add_one,
    change_inside,
    add_line,
    drop,
    nothing,
]


class Rewriter(w.Policy[None]):
    """Changes the call: in a new one, in place and handed back, or in place without a word."""

    def __init__(self, at: int, how: str, change: Callable[[Arguments], None]) -> None:
        self.at, self.how, self.change = at, how, change
        self.held: list[Arguments] = []

    @property
    def name(self) -> str:
        return f"Rewriter{self.at}"

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> Any:
        for late in self.held:  # what it gave earlier is not its own any more
            self.change(late)
        arguments = copy.deepcopy(call.arguments) if self.how == "new" else call.arguments
        self.change(arguments)
        self.held.append(arguments)
        if self.how == "in place":
            return None
        return call if self.how == "handed back" else w.ToolCall(call.id, call.name, arguments)


class Around(w.Tool):
    """A tool around a tool, which may change the arguments on their way."""

    __slots__ = ("change", "inner", "new")

    def __init__(self, inner: w.Tool, new: bool, change: Callable[[Arguments], None]) -> None:
        super().__init__(inner.name, inner.description, inner.parameters, inner.handler)
        self.inner, self.new, self.change = inner, new, change

    def prepare(self, arguments: Arguments, mode: Any = "strict") -> Any:
        return self.inner.prepare(arguments, mode)

    async def call(self, arguments: Arguments, ctx: Any) -> Any:
        given = copy.deepcopy(arguments) if self.new else arguments
        self.change(given)
        return await self.inner.call(given, ctx)


def caller_of(how: str, change: Callable[[Arguments], None]) -> Any:
    """A tool caller that looks, changes its copy, or tries to run another call."""

    async def caller(asked: Any, run_next: Any) -> Any:
        if how == "other call":
            other = {**asked, "arguments": copy.deepcopy(asked["arguments"])}
            change(other["arguments"])
            return await run_next(other)
        if how == "in place":
            change(asked["arguments"])
        return await run_next(asked)

    return caller


class Stack(NamedTuple):
    """What stands around one tool."""

    rewriters: list[tuple[str, Callable[[Arguments], None]]]
    wrappers: list[tuple[bool, Callable[[Arguments], None]]]
    callers: list[tuple[str, Callable[[Arguments], None]]]
    text: bool
    asks: bool
    spoils: bool
    retries: int
    streams: bool
    reads: bool
    lenient: bool


changes = st.sampled_from(CHANGES)
stacks = st.builds(
    Stack,
    rewriters=st.lists(
        st.tuples(st.sampled_from(["new", "in place", "handed back"]), changes), max_size=4
    ),
    wrappers=st.lists(st.tuples(st.booleans(), changes), max_size=2),
    callers=st.lists(
        st.tuples(st.sampled_from(["plain", "in place", "other call"]), changes), max_size=2
    ),
    text=st.booleans(),
    asks=st.booleans(),
    spoils=st.booleans(),
    retries=st.integers(0, 1),
    streams=st.booleans(),
    reads=st.booleans(),
    lenient=st.booleans(),
)
given_arguments = st.fixed_dictionaries(
    {
        "to": st.sampled_from(["bob", "ann"]),
        "cents": st.integers(-5, 5),
        "lines": st.lists(st.fixed_dictionaries({"text": st.text(max_size=3)}), max_size=2),
    }
)


# --------------------------------------------------------------------------- one run


def spoil(value: Any) -> None:
    """Change every dict and list within reach."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            spoil(inner)
        value["to"] = "mallory"
    elif isinstance(value, (list, tuple)):
        for inner in value:
            spoil(inner)
    elif hasattr(value, "__struct_fields__"):
        for name in value.__struct_fields__:
            spoil(getattr(value, name))


def tool_of(stack: Stack, got: list[tuple[str, Arguments]]) -> w.Tool:
    def handler(args: Arguments, ctx: w.ToolContext[Any]) -> str:
        got.append((ctx.call_id, copy.deepcopy(args)))
        spoil(args)
        if ctx.attempt <= stack.retries:
            raise OSError("try again")
        return "paid"

    level: Any = "read_only" if stack.reads else None
    tool = w.Tool("pay", "Pay.", _SCHEMA, handler, side_effect_level=level)
    for new, change in stack.wrappers:
        tool = Around(tool, new, change)
    return tool


def model_of(stack: Stack, calls: list[Arguments]) -> Any:
    if not stack.text:
        asked = [call("pay", **one) for one in calls]
        return scripted(asked, "ok", stream=stack.streams)
    blocks = [
        f"<tool_call>{json.dumps({'name': 'pay', 'arguments': one})}</tool_call>" for one in calls
    ]
    return scripted("\n".join(blocks), "ok", stream=stack.streams)


async def outcome(
    stack: Stack, calls: list[Arguments]
) -> tuple[list[tuple[str, Arguments]], list[ToolDecided]]:
    """What the handler got, and the decisions on record."""
    got: list[tuple[str, Arguments]] = []
    options: dict[str, Any] = {}
    if stack.callers:
        caller: Any = w.default_tool_caller()
        for how, change in stack.callers:
            caller = w.compose([_layer(how, change)])(caller)
        options["tool_caller"] = caller
    if stack.asks:
        options["approval_policy"] = {"rules": [{"ask": "pay"}]}
    if stack.text:
        options["tool_format"] = "text"
    if stack.lenient:
        options["tool_arg_validation"] = "lenient"
    if stack.spoils:
        options |= {"audit_sink": spoil, "telemetry": spoil, "post_turn_callback": spoil}
    async with w.Runtime(store="memory:", environ={}):
        agent = w.Agent(
            model_of(stack, calls),
            tools=[tool_of(stack, got)],
            policies=[
                Rewriter(at, how, change) for at, (how, change) in enumerate(stack.rewriters)
            ],
            tool_retries=stack.retries,
            tool_backoff_ms=0,
            **options,
        )
        watching: dict[str, Any] = {"on_event": spoil} if stack.spoils else {}
        out = await agent.run("go", session_id="s", **watching)
        while out.status == "suspended":
            for waiting in await w.approvals():
                spoil(waiting.arguments)
            answers = {each.id: True for each in out.pending}
            for each in out.pending:
                spoil(each.arguments)
            out = await agent.resume("s", decisions=answers, **watching)
        assert out.status == "done", (out.status, out.error)
        entries = await out._run.store.read("s")
    return got, [e for e in entries if type(e) is ToolDecided and e.action == "allow"]


def _layer(how: str, change: Callable[[Arguments], None]) -> Any:
    made = caller_of(how, change)
    return lambda following: lambda asked: made(asked, following)


@given(stacks, st.lists(given_arguments, min_size=1, max_size=3))
@settings(max_examples=250)
def test_digest_of_the_decision_is_that_of_the_arguments_that_the_handler_gets(
    stack: Stack, calls: list[Arguments]
):
    got, decided = asyncio.run(outcome(stack, copy.deepcopy(calls)))
    digests = {entry.call_id: entry.digest for entry in decided}
    assert [digests.get(call_id) for call_id, _ in got] == [digest_of(args) for _, args in got]
    tampers = [change for how, change in stack.callers if how != "plain"]
    tampers += [change for _, change in stack.wrappers]
    if all(change is nothing for change in tampers):
        assert len(got) == len(calls) * (1 + stack.retries), "nothing is refused without a reason"
