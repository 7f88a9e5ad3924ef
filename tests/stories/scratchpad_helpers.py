"""What the stories of the scratchpad share: a busy model, and a reorganiser that answers as it is told."""

from __future__ import annotations

import json
from typing import Any

import windlass as w
from tests.stories.helpers import kept
from windlass.events import (
    AgentScratchpad,
)
from windlass.messages import ToolResult
from windlass.models.base import Request
from windlass.testing import ScriptedModel, call, scripted

TASK = "Build a house. The roof is green."
PURPOSE = "scratchpad"


@w.tool(side_effect_level="none")
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


def reorganizes(request: Request) -> bool:
    return "keep the scratchpad of an assistant" in (request.system or "")


def written_anew(**parts: Any) -> str:
    """Build a reorganiser's answer."""
    usual: dict[str, Any] = {"goals": [], "open_items": [], "facts": [], "refs": []}
    return json.dumps({**usual, **parts})


def fact(text: str, ref: str | None) -> dict[str, Any]:
    return {"text": text, "source_ref": ref}


HOUSE = written_anew(
    goals=[fact("a house", "user:initial")],
    open_items=[fact("the walls", None)],
    facts=[fact("the roof is green", "user:initial"), fact("step 1 is noted", "turn:3")],
)


def steps(request: Request) -> int:
    results = [b for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    return sum("noted step" in result.text for result in results)


def busy(turns: int, pad: Any = HOUSE, **options: Any) -> ScriptedModel:
    """Build a model that calls a tool so many times, and gives this pad when asked for one."""

    def reply(request: Request) -> Any:
        if reorganizes(request):
            return pad(request) if callable(pad) and not isinstance(pad, type) else pad
        done = steps(request) + 1
        return "the end" if done > turns else call("note", text=f"step {done}")

    return scripted(then=reply, **options)


def asked(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if not reorganizes(request)]


def reorganisations(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if reorganizes(request)]


def recited(request: Request) -> str | None:
    pads = [m.text for m in request.tail if m.kind == "scratchpad"]
    assert len(pads) <= 1
    return pads[0] if pads else None


def told(out: Any) -> list[AgentScratchpad]:
    return [entry for entry in out.entries if type(entry) is AgentScratchpad]


def actions(out: Any) -> list[tuple[str, int]]:
    return [(entry.action, entry.version) for entry in told(out)]


async def ran(model: ScriptedModel, scratchpad: Any = True, **options: Any) -> w.LoopResult:
    tools = [note, *options.pop("tools", ())]
    out = await w.agent_loop(TASK, model=model, tools=tools, scratchpad=scratchpad, **options)
    assert out.status == "done" and out.final_text == "the end", out.error
    await kept(out, model)
    return out


LIE = written_anew(facts=[fact("x", "turn:99")])


def plain(request: Request) -> Any:
    """Return the part of a request that must be the same."""
    return list(request.messages), request.frame, request.tail
