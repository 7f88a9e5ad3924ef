"""A run of thirty turns with all of judgement at work, for whoever wants to kill it.

The model, its judges, the checks and the callbacks are pure functions of what they are shown, so
that two processes say the same. The errand has a step that a judge sends back, a call that is made
over and over, ends that are refused, and a budget that has to be raised again and again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import windlass as w
from windlass.agents.agent import Agent  # loaded once, in the process that all others fork from
from windlass.errors import NoSuchSession
from windlass.events import (
    CheckRan,
    JudgeDecision,
    LoopControlDecision,
    Replied,
    RunEnded,
    Said,
    StallWarning,
    StepJudgeDecision,
    ToolResulted,
)
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.policies import completion, post_turn
from windlass.policies.judges import gates, step
from windlass.policies.judges import policy as verify
from windlass.policies.stall import policy as stall_policy
from windlass.policies.turn_limit import policy as turn_limit_policy
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.store.view import messages_of
from windlass.testing import EffectLog, call
from windlass.testing.kill import Scene, Seen

LOADED = (
    sqlite_store,
    post_turn,
    completion,
    gates,
    turn_limit_policy,
    stall_policy,
    step,
    verify,
)  # once, as well
SESSION = "s"
WIRE = AnthropicMessages("claude-test", api_key="not-a-key")
USAGE = w.Usage(10, 5)
TURNS = 30  # replies that count: sent back ones are said once more
CRITIQUE = "Take the other road."
WRONG, HALF, CLAIM = "a wrong turn", "half of it", "I believe that is all"


def said(request: w.Request) -> Any:
    """Return the model's answer to any request, of the run or of a judge."""
    if any(tool.name == "give_verdict" for tool in request.tools):
        return _judged(request)
    turn = sum(message.role == "assistant" for message in request.messages)
    corrected = CRITIQUE in request.messages[-1].text
    if turn in (4, 17) and not corrected:
        return [WRONG, w.ToolCall(f"w{turn}", "look", {"n": -turn})]
    if 8 <= turn <= 11:
        return w.ToolCall(f"c{turn}", "look", {"n": 8})
    if turn in (14, 15):
        return HALF
    if turn in (20, 24):
        return CLAIM
    if turn >= TURNS - 1:
        return "all of it is done"
    return w.ToolCall(f"c{turn}", "look", {"n": turn})


def _judged(request: w.Request) -> Any:
    words = request.messages[0].text
    if "critique" in request.tools[0].parameters["properties"]:
        veto = words.rpartition("CALL look: ")[2].startswith('{"n":-')
        word = "revise" if veto else "pass"
        return call("give_verdict", verdict=word, reasoning="r", critique=CRITIQUE, confidence=1)
    last = words.rpartition("ASSISTANT: ")[2]
    word = "continue" if last.startswith(CLAIM) else "done"
    return call("give_verdict", verdict=word, reasoning="r", next_step=f"go on, {len(words)}")


def whole(proposal: Any) -> str | None:
    """Check the work: half of it is not enough."""
    return "only half" if proposal.text == HALF else None


def polite(proposal: Any) -> bool:
    """Check nothing: it never fails."""
    return bool(proposal.messages)


def control(state: Any) -> dict[str, Any] | None:
    """Extend by two turns whenever there are none left, counted in the reason."""
    if state.budget.remaining > 0:
        return None
    seen = f"extension {state.budget.extension_count + 1} after {len(state.session.successful_tool_names)}"
    return {"action": "extend", "by": 2, "reason": seen}


def after_turn(turn: Any) -> Any:
    """Add messages after some turns, and change options after others."""
    if turn.iteration in (2, 22):
        return f"that was turn {turn.iteration}"
    if turn.iteration == 12:
        return {"llm_options": {"temperature": 0.25}}
    return {"message": "well", "veto": True} if turn.iteration == 25 else None


@w.tool(side_effect_level="none")
async def look(n: int) -> str:
    """Look something up."""
    return f"seen {n}"


OPTIONS: dict[str, Any] = {
    "done_judge": True,
    "verify_completion": [whole, polite],
    "step_judge": {"max_attempts": 2, "skip_when_iterations_remaining": 0},
    "stall_diagnostics": {"threshold": 3, "max_feedback": 2},
    "loop_detect_warn": 3,
    "loop_detect_block": 4,
    "loop_detect_skip": 5,
    "loop_detection": {"max_repetitions": 4, "on_loop_detected": "warn"},
    "iteration_budget": {"mode": "adaptive", "initial": 4, "max": 60, "extend_by": 2},
    "loop_control": control,
    "post_turn_callback": after_turn,
}


# --------------------------------------------------------------------------- a scene to be killed


class Pure(w.Model):
    """Says what `said` says, and notes the bytes of every request it gets."""

    provider, name = "pure", "pure"

    def __init__(self, scene: Scene) -> None:
        self.sent = EffectLog(scene.folder / "sent.jsonl")

    async def respond(self, request, emit):
        self.sent.write(digest(request))
        answer = said(request)
        blocks = [answer] if not isinstance(answer, list) else answer
        content = tuple(w.Text(block) if isinstance(block, str) else block for block in blocks)
        calls = any(isinstance(block, w.ToolCall) for block in content)
        return w.Response(
            w.Message("assistant", content), USAGE, "tool_use" if calls else "end_turn"
        )


def digest(request: w.Request) -> str:
    return hashlib.sha256(b"".join(WIRE.encode(request))).hexdigest()[:16]


async def scenario(scene: Scene) -> str:
    """Run the errand to its end, from wherever an earlier process left it."""
    agent = Agent(Pure(scene), tools=[look], **OPTIONS)
    async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run("go", session_id=SESSION)
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


KINDS = (
    CheckRan,
    JudgeDecision,
    LoopControlDecision,
    Replied,
    Said,
    StallWarning,
    StepJudgeDecision,
    ToolResulted,
)


async def check(scene: Scene) -> dict[str, Any]:
    """Check for the same requests and decisions, each recorded and paid for once."""
    problems: list[str] = []
    store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
    await store.verify(SESSION)
    entries = await store.read(SESSION)
    paid = await store.calls()
    await store.aclose()
    problems += audit([*messages_of(entries), w.Message("user", "next")])
    replies = [e for e in entries if type(e) is Replied]
    counts = Counter(type(e).__name__ for e in entries if type(e) in KINDS)
    if sum(c.usage.total_tokens for c in paid) != sum(e.usage.total_tokens for e in replies):
        problems.append("the books do not say what the journal says")
    if sum(e.status == "done" for e in entries if type(e) is RunEnded) != 1:
        problems.append("not ended once")
    sent = set(EffectLog(scene.folder / "sent.jsonl").counts())
    rebuilt = [digest(request) for request in requests_of(entries)]
    if sent != set(rebuilt):
        problems.append("what was sent is not what the journal rebuilds")
    seen = Seen(state=[sorted(counts.items()), rebuilt], problems=tuple(problems))
    return {"state": seen.state, "unknown": seen.unknown, "problems": seen.problems}
