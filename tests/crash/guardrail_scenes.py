"""A run with guardrails, to be killed: one that passes, one whose input and one whose answer trips."""

from __future__ import annotations

from typing import Any

import windlass as w
from tests.crash.pure_model import SESSION, Noting, calling, place, record, said
from windlass.errors import NoSuchSession
from windlass.events import GuardrailDecided, RunEnded
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing.kill import Scene, Seen

STATUS = {"pass": "done", "input": "blocked", "output": "blocked"}


class Pure(Noting):
    """Calls a tool once, then answers."""

    async def answer(self, request: w.Request) -> w.Response:
        if request.messages[-1].role == "user":
            return calling(w.ToolCall("c1", "mail", {}))
        return said("the answer")


def build_agent(scene: Scene) -> w.Agent[Any, Any]:
    """Build the agent whose guardrails trip as the scene says."""
    trips = scene.params["trips"]

    @w.tool
    async def mail() -> str:
        """Send a letter."""
        scene.effects.write("mail")
        return "sent"

    async def check_input(text: str) -> str | None:
        return "forbidden" if trips == "input" else None

    async def check_output(text: str) -> str | None:
        return "forbidden" if trips == "output" else None

    return w.Agent(
        Pure(scene),
        tools=[mail],
        input_guardrails=[check_input],
        output_guardrails=[check_output],
    )


async def scenario(scene: Scene) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""
    agent = build_agent(scene)
    async with w.Runtime(store=place(scene)):
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run("go", session_id=SESSION)
    assert out.status == STATUS[scene.params["trips"]], (out.status, out.error)
    return out.final_text


async def check(scene: Scene) -> Seen:
    """Check for one end, one verdict of each guardrail, and no answer or letter that was refused."""
    entries = await record(scene)
    trips = scene.params["trips"]
    problems = audit([*messages_of(entries), w.Message("user", "next")])
    verdicts = [(e.guardrail, e.verdict) for e in entries if type(e) is GuardrailDecided]
    if trips != "input" and verdicts.count(("check_input", "passed")) != 1:
        problems.append(f"other verdicts on the input: {verdicts}")
    if trips == "input" and ("check_input", "tripped") not in verdicts:
        problems.append("the input was not refused on the record")
    ends = [e.status for e in entries if type(e) is RunEnded]
    if ends != [STATUS[trips]]:
        problems.append(f"other ends: {ends}")
    seen = str(messages_of(entries))
    if ("the answer" in seen) != (trips == "pass"):
        problems.append(f"other messages: {seen}")
    if trips == "input" and scene.effects.read():
        problems.append("a tool ran although the input was refused")
    unknown = ("mail",) if "interrupted" in seen else ()
    return Seen(state=[trips, ends], unknown=unknown, problems=tuple(problems))
