"""Probes of plain answers: reach, streams, the system prompt, JSON, schemas, thinking."""

from __future__ import annotations

import msgspec

from windlass.errors import ModelError
from windlass.events import TextDelta
from windlass.json_types import JsonObject, is_object
from windlass.messages import Message, Text, Thinking
from windlass.models.base import Frame, Model, Request, Settings
from windlass.models.doctor.model import Exchange, Finding, ProbedModel
from windlass.models.registry.capabilities import Lowering
from windlass.models.wires.base import HttpModel

HELLO = "Reply with the single word: hello"
COLOURS = ("vermilion", "teal")
SHAPE: JsonObject = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": list(COLOURS)},
        "count": {"type": "integer"},
    },
    "required": ["colour", "count"],
    "additionalProperties": False,
}


async def reach(patient: ProbedModel) -> Finding:
    """Check that the server answers and accepts the key."""
    try:
        patient.memory["plain"] = await patient.ask(HELLO, stream=False)
    except ModelError as error:
        if error.category == "auth":
            return Finding("", "fail", f"the key is not taken: {error}")
        if error.http_status is None and error.category in ("network", "timeout"):
            return Finding("", "fail", str(error))
        patient.memory["plain"] = error  # the server answers
        if error.category in ("bad_request", "quota") and error.http_status in (402, 404, 429):
            return Finding("", "fail", str(error))
    seen = patient.memory["plain"]
    took = f" in {seen.total_s:.2f} s" if isinstance(seen, Exchange) else ""
    return Finding("", "pass", f"answers{took}")


async def plain(patient: ProbedModel) -> Finding:
    """Check that a plain reply arrives, with its usage."""
    seen = patient.memory.get("plain")
    if isinstance(seen, ModelError):
        raise seen
    if seen is None:
        seen = await patient.ask(HELLO, stream=False)
    if not seen.response.text.strip():
        return Finding("", "fail", f"no words came (stop reason {seen.response.stop_reason})")
    counted = "without usage" if seen.response.usage.estimated else "with usage"
    size = len(seen.response.text)
    return Finding("", "pass", f"{size} character{'' if size == 1 else 's'}, {counted}")


async def stream(patient: ProbedModel) -> Finding:
    """Check that a streamed reply arrives in pieces."""
    seen = await patient.ask(
        "Count from one to ten in English words, with commas between them.", stream=True
    )
    patient.memory["stream"] = seen
    patient.memory["first_s"] = seen.first_s
    deltas = [event for event in seen.events if isinstance(event, TextDelta)]
    if not seen.response.text.strip():
        return Finding("", "fail", f"no words came (stop reason {seen.response.stop_reason})")
    if "".join(delta.text for delta in deltas) != seen.response.text:
        return Finding("", "fail", "the pieces do not make up the reply")
    if seen.raw.lstrip()[:1] == b"{" and patient.is_http and not patient.wire.streams_json:
        return Finding("", "unsupported", "a stream was asked for, and one JSON body came")
    first = "" if seen.first_s is None else f", the first after {seen.first_s:.2f} s"
    count = "one piece" if len(deltas) == 1 else f"{len(deltas)} pieces"
    return Finding("", "pass", f"{count}{first}")


async def stream_usage(patient: ProbedModel) -> Finding:
    """Check whether a stream reports its token counts."""
    seen: Exchange | None = patient.memory.get("stream")
    if seen is None:
        seen = await patient.ask(HELLO, stream=True)
    usage = seen.response.usage
    if usage.estimated:
        return Finding("", "unsupported", "the stream ends without token counts")
    return Finding("", "pass", f"{usage.input_tokens} in, {usage.output_tokens} out")


async def system(patient: ProbedModel) -> Finding:
    """Check whether a system prompt is accepted."""
    seen = await patient.ask(
        "What is the password?", system="The password is PLUM. Always tell it when asked."
    )
    if "plum" in seen.response.text.lower():
        return Finding("", "pass", "taken and obeyed")
    return Finding("", "pass", "taken; the reply does not show that it was read")


# --------------------------------------------------------------------------- typed answers


async def json_mode(patient: ProbedModel) -> Finding:
    """Check the provider's JSON mode."""
    if not patient.expresses(patient.model, Settings(response_format="json"), Settings()):
        return Finding("", "unsupported", "this wire has no JSON mode")
    seen = await patient.ask(
        "Describe an apple as a JSON object with the keys name and colour.",
        response_format="json",
        stream=False,
    )
    value = _parse_reply(seen)
    if value is not None:
        return Finding("", "pass", "a JSON object came", facts={"structured": ["json"]})
    return Finding("", "unsupported", f"taken, but no JSON came: {seen.response.text[:60]!r}")


async def schema(patient: ProbedModel) -> Finding:
    """Check the provider's structured output: only the schema names the wanted shape."""
    if not patient.expresses(patient.model, Settings(schema=SHAPE), Settings()):
        return Finding("", "unsupported", "this wire has no schemas")
    seen = await patient.ask("Describe an apple as JSON.", schema=SHAPE, stream=False)
    value = _parse_reply(seen)
    if value is not None and _fits(value):
        return Finding("", "pass", "the reply fits the schema", facts={"structured": ["schema"]})
    return Finding("", "unsupported", f"taken, not held to: {seen.response.text[:60]!r}")


def _parse_reply(seen: Exchange) -> JsonObject | None:
    try:
        value: object = msgspec.json.decode(seen.response.text.strip())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return value if is_object(value) else None


def _fits(value: JsonObject) -> bool:
    return (
        set(value) == {"colour", "count"}
        and value["colour"] in COLOURS
        and type(value["count"]) is int
    )


# --------------------------------------------------------------------------- thinking

SUM = "What is 17 * 23? Think about it, then answer with the number alone."


async def thinking(patient: ProbedModel) -> Finding:
    """Check whether the model thinks when asked to, and which request form asks for it."""
    asked = await _quiet(patient)
    if thought(asked):
        patient.memory["thinks_unasked"] = True
    known = patient.caps.lowering
    tries: list[Lowering] = list(patient.wire.thinking_forms)
    if known:
        tries = [known, *(lowering for lowering in tries if lowering != known)]
    refused = ""
    for lowering in tries:
        model = _thinking_model(patient, lowering)
        chosen = Settings(thinking=True)
        if not patient.expresses(model, chosen, Settings()):
            continue
        try:
            seen = await patient.ask(SUM, model=model, thinking=True, max_tokens=2048)
        except ModelError as error:
            if error.category != "bad_request":
                raise
            refused = str(error)
            continue
        if thought(seen):
            patient.memory["lowering"] = lowering
            facts: JsonObject = {"thinking": True, "lowering": lowering}
            return Finding("", "pass", f"thinks when asked ({lowering})", facts=facts)
    if patient.memory.get("thinks_unasked"):
        return Finding("", "pass", "thinks, asked or not", facts={"thinking": True})
    why = f": {refused}" if refused else ""
    return Finding("", "unsupported", f"no thinking was seen{why}"[:200], facts={"thinking": False})


async def thinking_off(patient: ProbedModel) -> Finding:
    """Check whether thinking can be switched off."""
    if "lowering" not in patient.memory and not patient.memory.get("thinks_unasked"):
        return Finding("", "unsupported", "it does not think")
    lowering = patient.memory.get("lowering")
    model = _thinking_model(patient, lowering) if lowering else patient.model
    if not patient.expresses(model, Settings(thinking=False), Settings()):
        if patient.memory.get("thinks_unasked"):
            detail = "thinks, and this wire has no way to say no"
            return Finding("", "unsupported", detail, facts={"always_thinks": True})
        return Finding("", "pass", "it does not think unless asked")
    seen = await patient.ask(SUM, model=model, thinking=False)
    if thought(seen):
        detail = "told not to think, it thinks"
        return Finding("", "unsupported", detail, facts={"always_thinks": True})
    facts = {"always_thinks": False, "thinking_modes": ["enabled", "disabled"]}
    return Finding("", "pass", "does not think when told not to", facts=facts)


async def effort(patient: ProbedModel) -> Finding:
    """Check whether a level of effort is accepted."""
    lowering = patient.memory.get("lowering")
    if lowering is None:
        return Finding("", "unsupported", "it does not think when asked")
    model = _thinking_model(patient, lowering)
    low = {"mode": "effort", "effort": "low"}
    if not patient.expresses(model, Settings(thinking=low), Settings(thinking=True)):
        return Finding("", "unsupported", "this way of asking knows no levels")
    if not _writes_level(model, low):
        return Finding("", "unsupported", "a level is written as a number of tokens")
    await patient.ask(SUM, model=model, thinking=low, max_tokens=2048)
    facts: JsonObject = {"reasoning_effort_supported": True}
    if not patient.caps.efforts:
        facts["efforts"] = ["low", "medium", "high"]
    return Finding("", "pass", "low is taken", facts=facts)


def _writes_level(model: Model, chosen: JsonObject) -> bool:
    frame = Frame(None, (), Settings(thinking=chosen))
    request = Request([Message("user", (Text(SUM),))], frame)
    return isinstance(model, HttpModel) and b'"low"' in b"".join(model.encode(request)).lower()


async def _quiet(patient: ProbedModel) -> Exchange:
    seen = patient.memory.get("plain")
    return seen if isinstance(seen, Exchange) else await patient.ask(SUM)


def _thinking_model(patient: ProbedModel, lowering: Lowering) -> Model:
    levels = patient.caps.efforts or ("low", "medium", "high")
    modes = patient.caps.thinking_modes or ("enabled", "effort", "disabled")
    return patient.with_caps(
        known=True,
        thinking=True,
        lowering=lowering,
        efforts=levels,
        thinking_modes=modes,
        reasoning_effort_supported=True,
    )


def thought(seen: Exchange) -> bool:
    """Check whether a reply holds thinking, as text or in its token counts."""
    blocks = seen.response.message.content
    return seen.response.usage.reasoning_tokens > 0 or any(isinstance(b, Thinking) for b in blocks)
