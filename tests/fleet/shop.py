"""The agents that workers of the proofs drive, with tools of every kind and a model that is pure.

What a run does is in its prompt, such as `"mixed 7"`. The model looks at the conversation alone, so any
process goes on where another one was killed. Effects outside of the store are lines in files of a folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import windlass as w
from windlass.testing import call, scripted

FOLDER = "WINDLASS_PROOF_FOLDER"  # where tools write
PACE = "WINDLASS_PROOF_PACE"  # seconds that a tool takes
#: Effects in the store: nothing in the table keeps a second one out.
TABLES = """CREATE TABLE effects (
    no bigint GENERATED ALWAYS AS IDENTITY, job text, n bigint, pid bigint, session text, epoch bigint
)"""
NAP_SECONDS = 0.5

#: The steps of each kind of run; the number of a step is its place.
STEPS: dict[str, tuple[str, ...]] = {
    "pay": ("pay", "pay", "pay"),
    "charge": ("charge", "charge"),
    "mail": ("mail", "mail"),
    "look": ("look", "look", "pay"),
    "child": ("audit", "pay"),
    "ask": ("transfer",),
    "nap": ("nap", "pay"),
    "mixed": ("look", "pay", "charge", "mail", "pay"),
    "quick": ("pay",),
    "long": ("pay",) * 12,
    "die": ("die",),
    "timer": ("timer", "pay"),
    "event": ("event", "pay"),
    "watch": ("watch", "pay"),
}
#: What steps wait for; a watch is for the file in the prompt.
CONDITIONS: dict[str, dict[str, Any]] = {
    "nap": {"timeout": NAP_SECONDS},
    "timer": {"timeout": "1d"},
    "event": {"on_event": "morning"},
    "watch": {},
}
KINDS = ("pay", "charge", "mail", "look", "child", "ask", "nap", "mixed")


def write_line(name: str, line: str) -> None:
    """Append a line to a file in one write: a kill leaves all of it or nothing."""
    path = Path(os.environ[FOLDER], name)
    file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


async def work() -> None:
    """Take as long as a tool takes."""
    await asyncio.sleep(float(os.environ.get(PACE, "0.05")))


def insert_effect(tx: Any, session: str, job: str, n: int) -> str:
    """Write the effect, in the transaction of its result, with the number of its writer."""
    found = tx.execute("SELECT epoch FROM windlass_sessions WHERE id = ?", (session,)).fetchone()
    tx.execute(
        "INSERT INTO effects (job, n, pid, session, epoch) VALUES (?, ?, ?, ?, ?)",
        (job, n, os.getpid(), session, found[0]),
    )
    return "paid"


@w.tool(transactional=True)
async def pay(ctx: w.ToolContext[None], job: str, n: int) -> str:
    """Pay, in the transaction of the result."""
    await work()
    return await ctx.commit(lambda tx: insert_effect(tx, ctx.session_id, job, n))


@w.tool(transactional=True, requires_approval=True)
async def transfer(ctx: w.ToolContext[None], job: str, n: int) -> str:
    """Pay, when somebody has said yes."""
    await work()
    return await ctx.commit(lambda tx: insert_effect(tx, ctx.session_id, job, n))


@w.tool(keyed=True)
async def charge(ctx: w.ToolContext[None], job: str, n: int) -> str:
    """Charge a card at a bank that takes each key once."""
    write_line("charges", f"{job} {n} {ctx.idempotency_key}")
    await work()
    return "charged"


@w.tool
async def mail(job: str, n: int) -> str:
    """Send a mail, which nobody can take back or recognise."""
    write_line("mails", f"{job} {n}")
    await work()
    return "sent"


@w.tool(side_effect_level="read_only")
async def look(job: str, n: int) -> str:
    """Read, as often as one likes."""
    await work()
    return "seen"


@w.tool(side_effect_level="read_only")
async def die(job: str, n: int) -> str:
    """Take the process along."""
    write_line("deaths", f"{job} {n} {os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def answer(request: w.Request) -> Any:
    """Return the next step of the run: as many are done as there are replies."""
    words = request.messages[0].text.split()
    done = sum(message.role == "assistant" for message in request.messages)
    kind, job = words[0], " ".join(words)
    if kind == "audited":
        return call("pay", job=job, n=0) if done == 0 else "Audited."
    steps = STEPS[kind]
    if done >= len(steps):
        return "Done."
    if steps[done] == "audit":
        return call("auditor", task=f"audited {words[1]}")
    if steps[done] in CONDITIONS:
        asked = CONDITIONS[steps[done]]
        if steps[done] == "watch":
            asked = {"trigger": {"kind": "file", "paths": [words[2]]}}
        return call("agent_await_resumption", reason="it is early", conditions=asked)
    return call(steps[done], job=job, n=done)


def list_effects(job: str) -> list[tuple[str, str, int]]:
    """Return the effects that a run has when it is done: tool, job and number."""
    kind, number = job.split()[:2]
    found: list[tuple[str, str, int]] = []
    for n, step in enumerate(STEPS[kind]):
        if step == "audit":
            found.append(("pay", f"audited {number}", 0))
        elif step in ("pay", "transfer", "charge", "mail"):
            found.append(("pay" if step == "transfer" else step, job, n))
    return found


def build_model(delay: float = 0.01) -> w.Model:
    """Build the model that answers by the conversation alone."""
    return scripted(then=answer, delay=delay)


auditor = w.Agent(
    build_model(), name="auditor", description="Audits an order.", tools=[pay], max_turns=5
)
clerk = w.Agent(
    build_model(),
    name="clerk",
    tools=[pay, transfer, charge, mail, look],
    agents=[auditor],
    await_resumption=True,
    taint=False,  # who said what is not the question here
    max_turns=40,
    max_resume_attempts=20,  # the proof kills without end: this is no poison
)
deadly = w.Agent(build_model(), name="deadly", tools=[die], max_turns=5, max_resume_attempts=2)
agents = [clerk, deadly]

# The shop of the next release: a new agent, a clerk of version 2 without a tool, and the old clerk.
clerk_2 = clerk.with_(version="2", tools=[pay, charge, mail, look])
helper = clerk.with_(name="helper")
new_agents = [clerk, clerk_2, helper, deadly]
