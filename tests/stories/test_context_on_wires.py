"""Everything of context meets everything of judgement in one run, over every wire.

Each fake refuses what its provider would, so that a run that ends well has sent nothing but legal
requests; `server.refused` says so again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.judge_helpers import of
from tests.stories.wire_fakes import servers
from windlass.events import (
    AgentScratchpad,
    CheckRan,
    Compacted,
    Decorated,
    JudgeDecision,
    LoopControlDecision,
    Projected,
    Reminded,
    Replied,
    StallWarning,
    StepJudgeDecision,
)
from windlass.messages import Message, Text
from windlass.testing.providers import Reply

WIRES = list(servers(None))
TURNS = 18
CLAIM = "I believe that is all."

pytestmark = pytest.mark.usefixtures("reachable")


# --------------------------------------------------------------------------- what is said


def script(body: dict[str, Any], _headers: Any) -> Reply:
    """A worker that reads pages, judges that send one step back and refuse one end, and two writers."""
    asked = json.dumps(body)
    if "The conversation:" in asked:
        return _judged(asked)
    if "You keep the pad." in asked:
        goals = [{"text": "read all pages", "source_ref": "user:initial"}]
        pad: dict[str, Any] = {"goals": goals, "open_items": [], "facts": [], "refs": []}
        return _spoken(asked, "write_scratchpad", pad)
    if "You write the log book." in asked:
        return Reply("The log book: pages were read, and the pears left alone.")
    leaves = [int(n) for n in re.findall(r"leaf\W+(\d+)", asked)]
    last = max(leaves, default=0)
    if last >= TURNS:
        return Reply("All pages are read." if "go on, please" in asked else CLAIM)
    if last == 4 and "Take the other road." not in asked:
        return Reply("A wrong turn.", tool_calls=[("page", {"leaf": 5})])
    if last == 8 and leaves.count(8) < 3:  # over and over
        return Reply(tool_calls=[("page", {"leaf": 8})])
    calls: list[tuple[str, dict[str, Any]]] = [("page", {"leaf": last + 1})]
    if last % 5 == 3:
        calls.append(("mind", {"words": f"ladder {last}"}))
    return Reply(f"Number {last + 1} is next.", tool_calls=calls)


def _judged(asked: str) -> Reply:
    last = asked.rpartition("ASSISTANT: ")[2]
    if "before any of its tool calls run" in asked:
        told: dict[str, Any] = {"verdict": "revise" if "A wrong turn." in last else "pass"}
        told |= {"reasoning": "r", "critique": "Take the other road.", "confidence": 1}
    else:
        told = {"verdict": "continue" if CLAIM in last else "done", "reasoning": "r"}
        told |= {"next_step": "go on, please"}
    return _spoken(asked, "give_verdict", told)


def _spoken(asked: str, tool: str, answer: dict[str, Any]) -> Reply:
    if f'"{tool}"' in asked:
        return Reply(tool_calls=[(tool, answer)])
    return Reply(json.dumps(answer))


# --------------------------------------------------------------------------- all of it


@w.tool(side_effect_level="none")
async def page(leaf: int) -> str:
    """Read a page of the orchard's book."""
    return "apples and plums, " * 40


@w.tool(side_effect_level="none")
async def mind(ctx: w.ToolContext[None], words: str) -> str:
    """Be reminded of something in the next turns."""
    ctx.remind(w.system_reminder(f"Mind the {words}.", ttl=2))
    return "so be it"


@w.tool(side_effect_level="none")
async def atlas(place: str, layer: str = "paths") -> str:
    """Look a place up in the atlas, with one of its layers: paths, water, walls, trees by kind, trees
    by age, soil, slope, or who owned what in which year, as far as anybody has written it down."""
    return "by the brook"


def _titled(message: Message, context: w.DecorationContext) -> Message:
    blocks = [
        Text(f"({context.index}) {b.text}") if type(b) is Text else b for b in message.content
    ]
    return Message(message.role, tuple(blocks), message.kind)


def _shown(ctx: w.ContextInfo) -> Any:
    if ctx.iteration % 4 == 2:
        made = {"role": "user", "content": "Be kind."}
        return {"messages": [made, *ctx.messages], "system": f"{ctx.system}\n\nStay calm."}
    return None


def _control(state: Any) -> dict[str, Any] | None:
    return {"action": "extend", "by": 4} if state.budget.remaining <= 0 else None


SHIP = w.skill_define(
    "ship", description="deploy", prompt="One at a time.", allowed_tools=["page", "mind"]
)
READ = w.skill_define("read", description="orchard", prompt="Read every line.")
CONTEXT: dict[str, Any] = {
    "compact_strategy": "hybrid",
    "compact_threshold": 1_000,
    "compact_keep_last": 4,
    "transcript_projection": {
        "policy": "reachability_gc",
        "keep_last": 2,
        "min_chars": 200,
        "min_tokens": 100,
    },
    "context_callback": _shown,
    "message_decorator": _titled,
    "timestamp_messages": True,
    "scratchpad": {"reorganize_every": 4},
    "on_session_start": [w.system_reminder("It is autumn.", ttl=3), "Mind the wasps."],
    "skills": [SHIP, READ],
    "skill_match": {"sticky": False},
    "tool_surface_narrowing": {"window_turns": 4},
    "prompts": {
        "agent.compaction_system": {"text": "You write the log book."},
        "agent.scratchpad_system": {"text": "You keep the pad."},
    },
}
JUDGEMENT: dict[str, Any] = {
    "done_judge": True,
    "step_judge": {"skip_when_iterations_remaining": 0},
    "verify_completion": [lambda proposal: bool(proposal.text)],
    "stall_diagnostics": {"threshold": 2, "max_feedback": 1},
    "loop_detection": {"max_repetitions": 9, "on_loop_detected": "warn"},
    "iteration_budget": {"mode": "adaptive", "initial": 6, "max": 80, "extend_by": 4},
    "loop_control": _control,
    "post_turn_callback": lambda turn: "Now deploy it." if turn.iteration == 7 else None,
}


@pytest.mark.parametrize("wire", WIRES)
async def test_all_of_context_meets_all_of_judgement(wire: str):
    server, made = servers(script)[wire]
    async with server:
        model = made(server.url)
        out = await w.agent_loop(
            "Read the orchard's pages. Never touch the pears.",
            "You tend an orchard.",
            model=model,
            tools=[page, mind, atlas],
            **CONTEXT,
            **JUDGEMENT,
        )
        await model.aclose()
    assert (out.status, out.final_text) == ("done", "All pages are read."), (
        out.stop_reason,
        out.error,
    )
    assert not server.refused
    steps = Counter(one.verdict for one in of(out, StepJudgeDecision))
    assert steps["revise"] == 1 and steps["pass"] > 12
    assert [one.verdict for one in of(out, JudgeDecision) if one.gate == "done_judge"] == [
        "continue",
        "done",
    ]
    assert of(out, StallWarning) and of(out, LoopControlDecision) and of(out, CheckRan)
    assert of(out, Compacted) and of(out, Projected) and of(out, Decorated) and of(out, Reminded)
    assert {one.name for one in of(out, w.SkillActivated)} == {"ship", "read"}
    assert any("atlas" in one.removed_tools for one in of(out, w.SkillNarrowed))
    pads = Counter(one.action for one in of(out, AgentScratchpad))
    assert pads["reorganize"] >= 3 and not pads["failed"] and not pads["rejected"]
    asked = Counter(one.purpose for one in of(out, Replied))
    assert min(asked[who] for who in ("step_judge", "done_judge", "compaction", "scratchpad")) > 0
    await kept(out)
