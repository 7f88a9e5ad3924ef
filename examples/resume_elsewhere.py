"""A run is killed in the middle of its tools, and another process goes on with it.

    python examples/resume_elsewhere.py

Three kinds of tools, three outcomes: the read runs again, the keyed payment runs again under the
same key (the bank knows the key and pays once), and the plain letter is not repeated: the model is
told that its outcome is unknown, and decides for itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import windlass as w
from windlass.testing import call, scripted


class Bank:
    """The other side of the payment: one payment for each key, whatever it is told."""

    def __init__(self, folder: Path) -> None:
        self.book = folder / "bank.json"

    def pay(self, key: str, cents: int) -> None:
        book = json.loads(self.book.read_text()) if self.book.exists() else {}
        book[key] = cents
        self.book.write_text(json.dumps(book))


def die(ctx: w.ToolContext[Path]) -> None:
    """Once: the first attempt of a call does not live to see its result."""
    if ctx.attempt == 1 and (ctx.deps / "killer").exists():
        (ctx.deps / "killer").unlink()
        os.kill(os.getpid(), signal.SIGKILL)


@w.tool(side_effect_level="read_only")
async def look_up(ctx: w.ToolContext[Path], order: str) -> str:
    """Look an order up."""
    return f"order {order}: a kettle, 59.90 EUR"


@w.tool(keyed=True)
async def pay(ctx: w.ToolContext[Path], cents: int) -> str:
    """Pay money back."""
    Bank(ctx.deps).pay(ctx.idempotency_key, cents)
    die(ctx)  # the bank has it, we have no result
    return "paid"


@w.tool
async def send_letter(ctx: w.ToolContext[Path], text: str) -> str:
    """Send a letter."""
    with (ctx.deps / "letters.txt").open("a") as post:
        post.write(f"{text}\n")
    die(ctx)
    return "sent"


def assistant(request: w.Request) -> Any:
    """The model: three steps, told from the conversation alone."""
    results = [
        block
        for message in request.messages
        for block in message.content
        if isinstance(block, w.ToolResult)
    ]
    match len(results):
        case 0:
            return call("look_up", order="A-1")
        case 1:
            return call("pay", cents=5990)
        case 2:
            return call("send_letter", text="We are sorry.")
        case _:
            unknown = "unknown" in results[-1].text
            return "Paid. Please check the letter." if unknown else "Paid, and a letter is sent."


async def work(folder: Path) -> w.AgentResult[str]:
    store = f"sqlite:///{folder}/agent.db"
    agent = w.Agent(scripted(then=assistant), tools=[look_up, pay, send_letter], store=store)
    try:
        return await agent.resume("order-A-1", deps=folder)
    except w.NoSuchSession:
        return await agent.run("Refund A-1.", session_id="order-A-1", deps=folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for during in ("pay", "send_letter"):
            (folder / "killer").touch()
            ended = subprocess.run([sys.executable, __file__, name])
            print(f"killed during {during}: exit code {ended.returncode}")
        out = asyncio.run(work(folder))
        for record in out.tool_calls:
            print(f"{record.name}: {record.outcome}")
        print(f"{out.status}: {out.output}")
        payments = json.loads((folder / "bank.json").read_text())
        letters = (folder / "letters.txt").read_text().splitlines()
        print(f"payments at the bank: {len(payments)}, letters: {len(letters)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(Path(sys.argv[1])))
    else:
        main()
