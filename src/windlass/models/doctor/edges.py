"""Probes of the edges: finish reasons, images, token counts, completion, and errors."""

from __future__ import annotations

import re

from windlass.errors import ModelError
from windlass.messages import Image, Message, Text
from windlass.models.base import Completion, Frame, Request, Settings, silent
from windlass.models.doctor.answers import HELLO
from windlass.models.doctor.model import Exchange, Finding, ProbedModel
from windlass.models.wires.base import HttpModel

# a red square of 8 by 8 points
RED = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu"
    "7N9hAAAAAElFTkSuQmCC"
)
NOBODY = "windlass-doctor-no-such-model"
WRONG_KEY = "windlass-doctor-wrong-key"
# the field of each wire that holds the finish reason
ENDS = re.compile(
    rb'"(?:finish_reason|stop_reason|stopReason|finishReason|done_reason|status)"\s*:\s*"([a-zA-Z_]+)"'
)


async def finish_reason(patient: ProbedModel) -> Finding:
    """Check whether a reply gives its finish reason, at the token limit and for a call."""
    quirks: list[str] = []
    called: Exchange | None = patient.memory.get("called")
    if called is not None and called.response.stop_reason != "max_tokens":
        raw = _ends(called)
        if raw and raw not in ("tool_calls", "tool_use", "function_call", "completed", "STOP"):
            quirks.append(f"a call ends with {raw!r}")
        if not called.response.message.tool_calls[0].id:
            quirks.append("calls have no ids")
    allowed = 16  # the least that all of them take
    seen = await _cut(patient, allowed)
    came = seen.response.usage.output_tokens
    if seen.response.stop_reason != "max_tokens" and came < allowed and _takes_one(patient):
        allowed = 1  # it came to its end by itself
        seen = await _cut(patient, allowed)
        came = seen.response.usage.output_tokens
    if seen.response.stop_reason != "max_tokens" and 0 < came < allowed:
        return Finding("", "pass", "; ".join(["came to its end before any limit", *quirks]))
    if seen.response.stop_reason != "max_tokens":
        raw = _ends(seen) or seen.response.stop_reason
        detail = f"of {allowed} tokens allowed {came} came, and the reply ended with {raw!r}"
        return Finding("", "unsupported", "; ".join([detail, *quirks]))
    return Finding("", "pass", "; ".join(["says when it was cut short", *quirks]))


async def _cut(patient: ProbedModel, allowed: int) -> Exchange:
    poem = "Write a long poem about the sea, of at least twenty lines."
    return await patient.ask(poem, max_tokens=allowed, stream=False)


def _takes_one(patient: ProbedModel) -> bool:
    return patient.wire.least_output == 1


def _ends(seen: Exchange) -> str:
    found = ENDS.findall(seen.raw)
    return found[-1].decode() if found else ""


async def image(patient: ProbedModel) -> Finding:
    """Check whether an image is accepted."""
    question = Message("user", (Text("Which colour is this? One word."), Image(RED)))
    seen = await patient.ask([question], stream=False)
    named = "red" in seen.response.text.lower()
    detail = "taken and seen" if named else "taken; the reply does not name it"
    return Finding("", "pass", detail, facts={"images": True})


async def count_tokens(patient: ProbedModel) -> Finding:
    """Check whether tokens can be counted without a model call."""
    request = Request([Message("user", (Text(HELLO),))], Frame("Be brief.", (), Settings()))
    count = await patient.within(patient.model.count_tokens(request))
    if count is None:
        return Finding("", "unsupported", "no way to count", facts={"counts_tokens": False})
    if count <= 0:
        return Finding("", "fail", f"{count} tokens were counted")
    return Finding("", "pass", f"{count} tokens counted", facts={"counts_tokens": True})


async def completion(patient: ProbedModel) -> Finding:
    """Check whether the model continues a text and fills a gap."""
    settings = Settings(max_tokens=16, stream=False)
    gap = Completion("def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n", settings=settings)
    reply = await patient.within(patient.model.complete(gap, silent))
    if reply is None:
        return Finding("", "unsupported", "no endpoint that goes on with a text")
    patient.charge(reply.usage)
    if not reply.text.strip():
        return Finding("", "fail", "nothing came")
    return Finding("", "pass", f"fills a gap: {reply.text.strip()[:30]!r}")


async def bad_model(patient: ProbedModel) -> Finding:
    """Check that an unknown model gives an error of a known type."""
    return await _must_fail(patient, "name", "any name is served")


async def bad_key(patient: ProbedModel) -> Finding:
    """Check that a wrong key gives an error of a known type."""
    if isinstance(patient.model, HttpModel) and not patient.model.secrets:
        return Finding("", "pass", "no key is needed")
    return await _must_fail(patient, "api_key", "any key is taken")


async def _must_fail(patient: ProbedModel, what: str, otherwise: str) -> Finding:
    other = patient.make(NOBODY) if what == "name" else patient.make(api_key=WRONG_KEY)
    try:
        await patient.ask(HELLO, model=other, stream=False, max_tokens=16)
    except ModelError as error:
        wanted = "bad_request" if what == "name" else "auth"
        shown = f"{error.http_status or '-'} {error.category}: {' '.join(str(error).split())[:80]}"
        if error.category in (wanted, "auth"):
            return Finding("", "pass", shown)
        return Finding("", "fail", f"not known as {wanted}: {shown}")
    return Finding("", "pass", otherwise)
