"""What a long run no longer needs leaves the view, on the record; the journal keeps everything."""

from __future__ import annotations

from typing import Any

import windlass as w
from tests.stories.world import kept, note
from windlass.events import (
    Compacted,
)
from windlass.testing import ScriptedModel, call, scripted

TASK = "Find the total. Never touch prod."


@w.tool(side_effect_level="none")
async def look(n: int) -> str:
    """Look at a page: a long one."""
    return f"page {n}: fact-{n}. " + "lorem ipsum " * 300  # about 900 tokens


def is_summary(request: w.Request) -> bool:
    return "notes" in (request.system or "") and not request.tools


def busy(turns: int, what: Any = None, **options: Any) -> ScriptedModel:
    """A model that calls a tool so many times, and writes notes when it is asked to."""
    done = 0

    def reply(request: w.Request) -> Any:
        nonlocal done
        if is_summary(request):
            return "NOTES: pages were looked at"
        done += 1
        if done > turns:
            return "the end"
        return what(done) if what is not None else call("note", text=f"step {done}")

    return scripted(then=reply, **options)


def compactions(out: Any) -> list[Compacted]:
    return [entry for entry in out.entries if type(entry) is Compacted]


def asked(model: ScriptedModel) -> list[w.Request]:
    """The requests of the loop itself."""
    return [request for request in model.requests if not is_summary(request)]


async def test_a_long_run_is_summarised_and_goes_on():
    model = busy(40)
    out = await w.agent_loop(TASK, model=model, tools=[note], compact_threshold=100)
    assert out.status == "done" and out.final_text == "the end"
    first = compactions(out)[0]
    assert (first.reason, first.strategy, first.engine_strategy) == ("threshold", "hybrid", "llm")
    assert first.estimated_tokens_before >= 100 > first.estimated_tokens_after
    sent = asked(model)[-1]
    assert sent.messages[0].text == TASK
    assert "NOTES: pages were looked at" in sent.messages[1].text
    assert sent.messages[1].kind == "summary" and sent.messages[1].role == "user"
    await kept(out, model)
