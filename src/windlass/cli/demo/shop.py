"""A small shop in SQLite: its tables, its three tools, and the script of its model.

The shop and the journal of the session share one file, so that a refund and the record of it can be
one transaction. The refunds table has no UNIQUE and no tool looks whether there is one already:
whatever is inserted and committed stays, and happening once is the runtime's doing alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from windlass import seams
from windlass.events import TextDelta, ToolCallReady
from windlass.json_types import JsonObject
from windlass.messages import Message, Text, ToolCall
from windlass.models.base import Emit, Model, Request, Response
from windlass.tools.function import tool
from windlass.tools.tool import ToolContext
from windlass.usage import Usage

SESSION = "refund-A-1042"
TASK = "Ada's kettle (order A-1042) arrived broken. Refund it and write to her."

_TABLES = """
CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT, item TEXT, cents INTEGER);
CREATE TABLE refunds (row INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT, cents INTEGER);
CREATE TABLE letters (row INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, customer TEXT, body TEXT);
INSERT INTO orders VALUES ('A-1042', 'Ada', 'kettle', 5990);
"""


class Shop:
    """The shop in a folder: `shop.db`, and beside it the log of effects."""

    def __init__(self, folder: Path) -> None:
        self.file, self.log = folder / "shop.db", folder / "effects.jsonl"
        self._seen: dict[str, int] = {}  # the last row of each table that was observed

    def open_for_business(self) -> None:
        """Create the tables, with one order in them."""
        with closing(sqlite3.connect(self.file)) as db:
            db.executescript(_TABLES)

    def rows(self, table: str) -> list[JsonObject]:
        """Return what is committed, seen from outside; rows are never removed."""
        with closing(sqlite3.connect(self.file)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY row")]

    def note(self, who: str, what: str, about: str) -> None:
        """Append a line to the log, which is never read by the tools."""
        line = msgspec.json.encode({"at": seams.now(), "who": who, "what": what, "about": about})
        with open(self.log, "ab", buffering=0) as log:
            log.write(line + b"\n")

    def read_log(self) -> list[JsonObject]:
        """Return every line of the log."""
        return [msgspec.json.decode(line) for line in self.log.read_bytes().splitlines()]

    def observe(self) -> None:
        """Log every row that was committed since the last look.

        The parent process does this, which takes no part in the run: it sees what anyone outside
        would see.
        """
        for table, what in (("refunds", "refund committed"), ("letters", "letter delivered")):
            for row in self.rows(table):
                if row["row"] > self._seen.get(table, 0):
                    self._seen[table] = row["row"]
                    label = row.get("order_id") or row["customer"]
                    self.note("observer", what, f"{table} row {row['row']}: {label}")


# --------------------------------------------------------------------------- the tools


@tool(side_effect_level="read_only")
async def look_up_order(ctx: ToolContext[Shop], order: str) -> str:
    """Find an order: who bought what, and for how much."""
    with closing(sqlite3.connect(ctx.deps.file)) as db:
        found = db.execute("SELECT * FROM orders WHERE id = ?", (order,)).fetchone()
    return f"{found[2]} for {found[1]}, {_euros(found[3])}" if found else f"no order {order}"


@tool(transactional=True)
async def refund(ctx: ToolContext[Shop], order: str, cents: int) -> str:
    """Pay the price of an order back."""
    ctx.deps.note(f"process {os.getpid()}", "refund begins", f"order {order}")

    def body(tx: Any) -> str:
        tx.execute("INSERT INTO refunds (order_id, cents) VALUES (?, ?)", (order, cents))
        seams.point("shop.refund_inserted")
        return f"refunded {_euros(cents)}"

    return await ctx.commit(body)


@tool(name="refund", keyed=True)
async def naive_refund(ctx: ToolContext[Shop], order: str, cents: int) -> str:
    """Pay the price of an order back."""
    # What not to do: it declares a key and does not use it, and commits apart from its record.
    ctx.deps.note(f"process {os.getpid()}", "refund begins", f"order {order}")
    with closing(sqlite3.connect(ctx.deps.file, isolation_level=None)) as db:
        db.execute("INSERT INTO refunds (order_id, cents) VALUES (?, ?)", (order, cents))
    seams.point("shop.refund_inserted")
    return f"refunded {_euros(cents)}"


@tool(keyed=True)
async def write_letter(ctx: ToolContext[Shop], customer: str, body: str) -> str:
    """Send a letter to a customer."""
    ctx.deps.note(f"process {os.getpid()}", "letter begins", f"key {ctx.idempotency_key}")
    with closing(sqlite3.connect(ctx.deps.file, isolation_level=None)) as db:
        # The post office knows its customers' keys: the same letter twice is one letter.
        db.execute(
            "INSERT INTO letters (key, customer, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (ctx.idempotency_key, customer, body),
        )
    seams.point("shop.letter_posted")
    return f"letter to {customer} is in the post"


def _euros(cents: int) -> str:
    return f"{cents / 100:.2f} EUR"


# --------------------------------------------------------------------------- the model


#: What the model says, the tool it calls, and the arguments; turn by turn.
Script: TypeAlias = tuple[tuple[str, str, JsonObject], ...]

_SCRIPT: Script = (
    ("I look at the order first.", "look_up_order", {"order": "A-1042"}),
    ("A kettle for 59.90 EUR. I refund it.", "refund", {"order": "A-1042", "cents": 5990}),
    (
        "Refunded. Now the letter.",
        "write_letter",
        {
            "customer": "Ada",
            "body": "We are sorry about the kettle. Your 59.90 EUR are on the way.",
        },
    ),
    ("Done: order A-1042 is refunded and Ada has a letter about it.", "", {}),
)


THINKING = 0.15  # seconds; a model takes its time, and what was on record before is on disk by then


class ScriptedModel(Model):
    """A model that gives the next line of the script, counted from the conversation."""

    provider, name = "scripted", "shop-assistant"

    def __init__(self, pace: float = 0.0, script: Script = _SCRIPT) -> None:
        self.pace = pace  # seconds between words, for the viewer
        self.script = script

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Stream the next line, word by word."""
        spoken = sum(1 for message in request.messages if message.role == "assistant")
        text, name, arguments = self.script[spoken]
        await seams.sleep(THINKING)
        for number, word in enumerate(text.split(" ")):
            emit(TextDelta(f" {word}" if number else word))
            await seams.sleep(self.pace)
        message = Message("assistant", (Text(text),))
        if name:
            call = ToolCall(f"call_{spoken + 1}", name, arguments)
            emit(ToolCallReady(call))
            message = Message("assistant", (Text(text), call))
        usage = Usage(_tokens(request.messages), _tokens([message]))
        return Response(message, usage, "tool_use" if name else "end_turn", self.name)


def _tokens(messages: Sequence[Message]) -> int:
    return sum(len(msgspec.json.encode(message)) for message in messages) // 4
