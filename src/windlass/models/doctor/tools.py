"""Probes of tools: a call, its result, several at once, streamed, forced."""

from __future__ import annotations

import re

from windlass.errors import ModelError
from windlass.json_types import JsonObject
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.doctor.model import Exchange, Finding, ProbedModel

LOOK_UP = ToolSpec(
    "look_up",
    "The price of an order.",
    {
        "type": "object",
        "properties": {"order": {"type": "string", "maxLength": 12}},
        "required": ["order"],
    },
)
CLOCK = ToolSpec("clock", "The time of day.", {"type": "object", "properties": {}})
ASK_ONE = "Use the tool look_up to find the price of order A-1."
ASK_TWO = (
    "Find the prices of the orders A-1 and A-2: call the tool look_up for both, at once, in one"
    " message."
)
FOREIGN = "call_0123456789abcdef01234567"  # as another provider would have named a call


async def tools(patient: ProbedModel) -> Finding:
    """Check whether a tool is called with valid arguments."""
    seen = await patient.ask(ASK_ONE, tools=(LOOK_UP,), stream=False)
    forced = ""
    if not whole_calls(seen):
        seen = await patient.ask(ASK_ONE, tools=(LOOK_UP,), tool_choice="required", stream=False)
        forced = ", but only when forced"
    called = whole_calls(seen)
    if not called:
        text = seen.response.text[:60]
        return Finding("", "unsupported", f"no call came: {text!r}", facts={"native_tools": False})
    if problem := _wrong(called):
        return Finding("", "fail", problem)
    patient.memory["call"] = called[0]
    patient.memory["called"] = seen
    right = "" if called[0].arguments.get("order") == "A-1" else ", not with the order asked for"
    facts: JsonObject = {"native_tools": True, "structured": ["tool"]}
    return Finding("", "pass", f"called{right}{forced}", facts=facts)


async def loop(patient: ProbedModel) -> Finding:
    """Check that the model continues from a tool's result, also under a foreign call id."""
    refusal: ModelError | None = None
    for facts in ({}, *patient.wire.history_needs):
        model = patient.with_caps(**facts) if facts else patient.model
        try:
            seen = await patient.ask(_call_history(FOREIGN), tools=(LOOK_UP,), model=model)
        except ModelError as error:
            if error.category != "bad_request":
                raise
            refusal = error
            continue
        if not seen.response.text.strip() and not seen.response.message.tool_calls:
            return Finding("", "fail", "nothing came after the tool's result")
        mentioned = "59.90" in seen.response.text
        detail = "goes on from a result" + (" and reads it" if mentioned else "")
        needs = "".join(f"; with {key} = {value}" for key, value in facts.items())
        return Finding("", "pass", f"{detail}{needs}", facts=facts)
    assert refusal is not None
    return Finding(
        "", "fail", f"a tool's result is refused: {' '.join(str(refusal).split())[:160]}"
    )


def _call_history(call_id: str) -> list[Message]:
    return [
        Message("user", (Text(ASK_ONE),)),
        Message("assistant", (ToolCall(call_id, "look_up", {"order": "A-1"}),)),
        Message("tool", (ToolResult(call_id, "A-1 costs 59.90", name="look_up"),)),
    ]


async def parallel(patient: ProbedModel) -> Finding:
    """Check whether one reply can hold several calls."""
    seen = await patient.ask(ASK_TWO, tools=(LOOK_UP,), stream=False)
    called = whole_calls(seen)
    if problem := _wrong(called):
        return Finding("", "fail", problem)
    if len(called) < 2:
        return Finding("", "unsupported", f"{len(called) or 'no'} call where two were asked for")
    if len({call.id for call in called}) < len(called):
        return Finding("", "fail", "two calls came with the same id")
    return Finding("", "pass", f"{len(called)} calls in one reply")


async def streamed_arguments(patient: ProbedModel) -> Finding:
    """Check whether a streamed call arrives complete."""
    seen = await _ask_for_call(patient, stream=True)
    called = whole_calls(seen)
    if not called:
        return Finding("", "unsupported", "a streamed reply brought no call")
    if problem := _wrong(called):
        return Finding("", "fail", problem)
    pattern = patient.wire.argument_mark
    count = len(re.findall(pattern, seen.raw)) if pattern else 0
    how = f"in {count} pieces" if count > 1 else "whole, in one piece"
    return Finding("", "pass", f"the arguments came {how}")


async def _ask_for_call(patient: ProbedModel, *, stream: bool) -> Exchange:
    seen = await patient.ask(ASK_ONE, tools=(LOOK_UP,), stream=stream)
    if whole_calls(seen):
        return seen
    return await patient.ask(ASK_ONE, tools=(LOOK_UP,), stream=stream, tool_choice="required")


async def choice_required(patient: ProbedModel) -> Finding:
    """Check that `tool_choice="required"` forces a call."""
    model = patient.with_caps(forces_calls=True)
    seen = await patient.ask(
        "Say hello.", tools=(LOOK_UP, CLOCK), tool_choice="required", model=model, stream=False
    )
    if called := whole_calls(seen):
        return Finding("", "pass", f"{called[0].name} was called", facts={"forces_calls": True})
    return Finding("", "unsupported", "taken, but no call came")


async def choice_named(patient: ProbedModel) -> Finding:
    """Check that `tool_choice={"name": …}` forces a call of that tool."""
    model = patient.with_caps(forces_calls=True)
    named = {"name": "clock"}
    seen = await patient.ask(
        ASK_ONE, tools=(LOOK_UP, CLOCK), tool_choice=named, model=model, stream=False
    )
    called = whole_calls(seen)
    if not called:
        return Finding("", "unsupported", "taken, but no call came")
    if others := sorted({call.name for call in called} - {"clock"}):
        return Finding("", "unsupported", f"clock was asked for, {', '.join(others)} was called")
    return Finding("", "pass", "the one that was named was called")


def whole_calls(seen: Exchange) -> list[ToolCall]:
    """Return the calls, without one that was cut off at the token limit."""
    cut = seen.response.stop_reason == "max_tokens"
    return [call for call in seen.response.message.tool_calls if not (cut and call.raw is not None)]


def _wrong(called: list[ToolCall]) -> str | None:
    for call in called:
        if call.raw is not None:
            return f"the arguments are no JSON object: {call.raw[:60]!r}"
        if call.name not in (LOOK_UP.name, CLOCK.name):
            return f"a tool was called that nobody offered: {call.name[:60]!r}"
        order: object = call.arguments.get("order")
        if call.name == LOOK_UP.name and not isinstance(order, str):
            return f"the arguments do not fit the schema: {str(call.arguments)[:60]}"
    return None
