"""A session with most features at work, which parks for a person's yes and is resumed.

Its files were written by the code before the source tree was restructured; nobody writes them again:
`rich-parked.db.gz` is the SQLite file of the parked session, `journal-1-rich.json` the whole journal,
`journal-1-rich-child.json` that of its sub-agent, `rich-rows.json` the rows of its resources.
Only public names are used here, so that the code of any version can run it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import windlass as w
from windlass.testing import ScriptedModel, call, scripted
from windlass.testing.virtual_time import VirtualTimeLoop

T = TypeVar("T")

SESSION = "rich"
ANN = w.Caller("ann", ("clerk",), "acme")
TASK = "Ship the new release to production. Refund order 7."
PAGE = "lorem ipsum " * 8
PAD = json.dumps(
    {
        "goals": [{"text": "ship it", "source_ref": "user:initial"}],
        "open_items": [{"text": "the refund", "source_ref": None}],
        "facts": [],
        "refs": [],
    }
)


class Ledger(w.Resource):
    """A resource that the run writes to."""

    id: str
    total: int = 0
    path = "ledger"


@w.tool(side_effect_level="none")
async def look(n: int) -> str:
    """Look at a page."""
    return f"page {n} ☕\n{PAGE}"


@w.tool(keyed=True)
async def refund(ctx: w.ToolContext[None], id: int) -> str:
    """Refund an order."""
    return f"refunded {id} under {ctx.idempotency_key}"


STEPS: list[Any] = [
    [call("look", n=1), call("look", n=2)],
    call("create_ledger", id="a", total=5),
    call("helper", task="count the boxes"),
    call("update_ledger", id="a", values={"total": 7}),
    call("look", n=3),
    call("look", n=4),
    [call("refund", id=7), call("get_ledger", id="a")],
    call("look", n=5),
    "I believe that is all.",
    call("look", n=6),
    "Goodbye.",
]


class Script:
    """A model that takes the steps, judges its work, and writes notes and pads when asked to.

    It counts its own steps, because compaction takes messages away; `taken` is where it begins.
    """

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken
        self.model: ScriptedModel = scripted(then=self.reply, usage=w.Usage(10, 5))

    def reply(self, request: w.Request) -> Any:
        """Answer the loop, the judge, the summariser or the reorganiser."""
        if any(tool.name == "give_verdict" for tool in request.tools):
            last = request.messages[0].text.rpartition("ASSISTANT: ")[2]
            word = "continue" if last.startswith("I believe") else "done"
            return call("give_verdict", verdict=word, reasoning="seen", next_step="look again")
        system = request.system or ""
        if "keep the scratchpad of an assistant" in system:
            return PAD
        if "the notes that take the place" in system or "Write the notes." in (
            request.messages[-1].text
        ):
            return "NOTES: pages were read."
        self.taken += 1
        return STEPS[self.taken - 1]


def build_agent(runtime: w.Runtime, script: Script, child: ScriptedModel) -> w.Agent[Any, Any]:
    """The agent with all of it at work."""
    helper = w.Agent(child, name="helper", system="You count.", tools=[look])
    skill = w.skill_define(
        "ship",
        {
            "description": "Ship a production release",
            "when_to_use": "User says ship/release/deploy",
            "prompt": "Follow the runbook.",
        },
    )
    return w.Agent(
        script.model,
        name="clerk",
        system="You run a small shop.",
        tools=[look, refund, helper.as_tool(), *runtime.tools(ANN)],
        skills=[skill],
        scratchpad={"reorganize_every": 3},
        compact_threshold=6,
        done_judge=True,
        loop_until_done=True,
        # the session was written before native tools had one
        prompts={"agent.loop_contract": {"text": ""}},
        verify_completion=lambda proposal: None,
        approval_policy={"rules": [{"match": "refund", "action": "ask"}]},
        budget=w.Budget(usd=5.0, tokens=100_000),
        max_turns=40,
    )


def open_runtime(place: str) -> w.Runtime:
    """A Runtime on that store, with the resources."""
    return w.Runtime(store=place, environ={}, resources=[Ledger])


async def begin(place: str) -> list[Any]:
    """Run until a person has to say yes; return the requests."""
    script = Script()
    async with open_runtime(place) as runtime:
        child = scripted(call("look", n=9), "Goodbye.", usage=w.Usage(3, 2))
        agent = build_agent(runtime, script, child)
        out = await agent.run(TASK, session_id=SESSION, caller=ANN)
    assert out.status == "suspended", (out.status, out.stop_reason, out.error)
    return script.model.requests


async def finish(place: str) -> list[Any]:
    """Say yes and run to the end; return the requests."""
    script = Script(taken=7)
    async with open_runtime(place) as runtime:
        agent = build_agent(runtime, script, scripted())
        parked = await agent.resume(SESSION, caller=ANN)
        yes = {pending.id: w.Allow(by=ANN) for pending in parked.pending}
        out = await agent.resume(SESSION, decisions=yes, caller=ANN)
    assert (out.status, out.final_text) == ("done", "Goodbye."), (out.stop_reason, out.error)
    return script.model.requests


def play(part: Callable[[str], Coroutine[Any, Any, T]], place: str, seed: int) -> T:
    """Run a part on a clock and with ids that a seed repeats.

    The record of a question names the working folder, so it is the same one everywhere.
    """
    loop_factory = functools.partial(VirtualTimeLoop, seed=seed)
    with contextlib.chdir("/"), asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(part(place))


def read_ledger(file: Path) -> list[list[Any]]:
    """Return the rows of the resource and of the audit log."""
    db = sqlite3.connect(file)
    try:
        ledger = db.execute("SELECT id, total, _version FROM ledger ORDER BY id").fetchall()
        audit = db.execute("SELECT count(*) FROM windlass_audit").fetchall()
        return [list(row) for row in [*ledger, *audit]]
    finally:
        db.close()
