"""An agent on Postgres from end to end: run, park, resume in another process, and look at it all."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from textwrap import dedent

import pytest

import windlass as w
from windlass.redaction.redactor import mask_url
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)

OTHER = """
import asyncio, sys
import windlass as w
from windlass.testing import scripted
from shop import refund

async def main(url, ask):
    agent = w.Agent(scripted("Refunded."), tools=[refund], store=url)
    out = await agent.resume("a1", results={ask: "yes, do"})
    print(out.status, out.output)
    async with w.Runtime(store=url) as runtime:
        print(await runtime.store.consult(
            lambda tx: tx.execute("SELECT order_id FROM refunds").fetchall()))

asyncio.run(main(*sys.argv[1:]))
"""

SHOP = """
@w.tool(transactional=True)
async def refund(ctx: w.ToolContext[None], order: str) -> str:
    \"\"\"Pay an order back.\"\"\"
    def body(tx):
        tx.execute("CREATE TABLE IF NOT EXISTS refunds (order_id TEXT)")
        tx.execute("INSERT INTO refunds VALUES (?)", (order,))
        return "refunded"
    return await ctx.commit(body)
"""


def test_from_end_to_end(module, project, windlass):
    url = shared_server().schema()
    module("shop", SHOP)
    sys.path.insert(0, str(project))
    from shop import refund  # pyright: ignore[reportMissingImports]

    ask = w.Tool(name="ask", description="Ask a person.", parameters={"q": {"type": "string"}})
    model = scripted((call("refund", order="A-1"), call("ask", q="sure?")))

    async def park():
        async with w.Runtime(store=url):
            out = await w.Agent(model, tools=[refund, ask]).run("Refund A-1.", session_id="a1")
        assert out.status == "suspended"
        [waiting] = out.pending
        return waiting

    waiting = asyncio.run(park())

    (project / "other.py").write_text(dedent(OTHER))
    done = subprocess.run(
        [sys.executable, "other.py", url, waiting.id], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["done Refunded.", "[('A-1',)]"], done.stderr

    listed = windlass("sessions", "list", "--store", url).output
    assert "a1" in listed and "Refund A-1." in listed and "done" in listed
    assert "verified" in windlass("sessions", "verify", "a1", "--store", url).output.lower()


def test_the_command_line_never_shows_a_password(windlass, tmp_path):
    url = f"postgresql://ann:s3cret@/agents?host={tmp_path}"
    (tmp_path / "project" / "windlass.toml").write_text(
        f'[store]\nurl = "{url}"\nbusy_timeout = 0.05\n'
    )
    for command in (["sessions", "list"], ["cost"], ["config"]):
        done = windlass(*command, code=None)
        assert "s3cret" not in done.output, command
    assert "cannot be reached" in windlass("sessions", "list", code=None).output


# what looks at sessions, and a word that it then shows
LOOKS = {
    "sessions list": "Pay A-7.",
    "sessions show a1": "Pay A-7.",
    "sessions verify a1": "verified",
    "sessions export a1": '"order":"A-7"',
    "approvals list": "pay",
    "audit query": "may pay run?",
    "audit verify": "verified 2 sessions",
    "plan show p1": "B-7",
    "trace a1 --json": "pay",
    "context a1": "Pay A-7.",
    "replay a1": "identical: 1 request",
    "cost": "total",
    "lint --session a1": "taken",
    "undo a1 --dry-run": "no effects",
}


def test_whatever_looks_at_sessions_shows_the_same_as_of_a_file(windlass, project):
    server, file = shared_server().schema(), str(project / "runs.db")
    asyncio.run(two_sessions(server))
    asyncio.run(two_sessions(file))
    for looking, word in LOOKS.items():
        shown = {place: windlass(*looking.split(), "--store", place) for place in (server, file)}
        assert word in shown[server].output, (looking, shown[server].output)
        assert plain(shown[server].output, server) == plain(shown[file].output, file), looking


def plain(text, place):
    """Without what differs from run to run: the place, times and ids."""
    text = text.replace(mask_url(place).partition("?")[0], "PLACE")
    text = re.sub(r"[0-9a-f]*[0-9][0-9a-f.]*( (ms|s|min)\b)?", "0", text)
    return " ".join(text.split())


async def two_sessions(place):
    """One that waits for a yes, and a preview."""

    @w.tool(kind="edit")
    async def pay(order: str) -> str:
        """Pay an order."""
        return "paid"

    async with w.Runtime(store=place, environ={}):
        model = scripted(call("pay", order="A-7"))
        agent = w.Agent(model, tools=[pay], approval_policy={"rules": [{"ask": "pay"}]})
        assert (await agent.run("Pay A-7.", session_id="a1")).status == "suspended"
        model = scripted(call("pay", order="B-7"), "paid")
        await w.Agent(model, tools=[pay]).run("Pay B-7.", session_id="p1", dry_run="plan")
