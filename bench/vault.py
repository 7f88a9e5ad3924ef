"""What forty tools cost in a request, all of them sent or behind the vault."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

import windlass as w
from bench.proof import CutCorner
from bench.table import Row
from tests.vault.tools import tools
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.testing import call, scripted
from windlass.tools.search.options import SEARCH_NAME

SHARE = 0.20
LOADED = ("read_file", "apply_patch")
PROMPT, ANSWER = "The customer was charged twice.", "Refunded, and the customer knows."
LOOK = call("stripe_list_invoices", customer="acme", status="paid", limit=1)
REFUND = call("stripe_create_refund", charge="ch_1", amount=500, reason="duplicate")
MAIL = call("gmail_send_message", to=["a@b.c"], subject="s", body="b", attachments=[])
READ = call("read_file", path="a", head=1, tail=1)


async def rows() -> list[Row]:
    """Six turns of an errand: two searches (or reads), three tools used, an answer."""
    wanted = call(SEARCH_NAME, query="customer invoices and refunds")
    vault = await _sent([wanted, LOOK, REFUND, call(SEARCH_NAME, query="send email"), MAIL], True)
    whole = await _sent([READ, LOOK, REFUND, READ, MAIL], False)
    name = (
        "40 tools behind the vault: bytes of tool schemas that are sent, over sending all, 6 turns"
    )
    sides = f"{vault / 6:,.0f} bytes a request", f"all: {whole / 6:,.0f} bytes"
    return [Row(name, vault / whole * 100, SHARE * 100, *sides, unit="%")]


async def _sent(calls: list[w.ToolCall], search: bool) -> int:
    """Run the errand; the bytes of tool schemas in all of its requests."""
    model = scripted(*calls, ANSWER)
    options: dict[str, Any] = {"tool_search": True} if search else {}
    out = await w.agent_loop(PROMPT, model=model, tools=tools(loaded=LOADED), **options)
    if [record.outcome for record in out.tool_calls] != ["ok"] * 5:
        raise CutCorner(f"not every call worked: {out.tool_calls}")
    wire = AnthropicMessages("claude-3-5-haiku-latest", api_key="none")
    bodies = [msgspec.json.decode(b"".join(wire.encode(request))) for request in model.requests]
    return sum(len(msgspec.json.encode(tool)) for body in bodies for tool in body["tools"])


if __name__ == "__main__":
    for row in asyncio.run(rows()):
        print(row.line())
