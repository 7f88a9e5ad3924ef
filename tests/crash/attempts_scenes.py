"""An execution of two attempts to be killed: a helper with a key, and a model that counts its calls."""

from __future__ import annotations

import asyncio

import msgspec

import windlass as w
from windlass.attempts.execution import execute_agent, resume_execution  # loaded before the fork
from windlass.errors import NoSuchSession
from windlass.events import Replied
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen

assert sqlite_store.SqliteStore
SESSION = "invoice"
GIVE = "give_invoice"


class Invoice(msgspec.Struct):
    """What is to be paid."""

    customer: str
    total: float


class Reader(w.Model):
    """Answers by what was said: a charge and a wrong invoice, a charge and a right one."""

    provider, name = "reader", "reader"

    async def respond(self, request, emit):
        turn = sum(message.role == "assistant" for message in request.messages)
        name, arguments = [
            ("charge", {"n": 1}),
            (GIVE, {"customer": "Ann", "total": -1.0}),
            ("charge", {"n": 2}),
            (GIVE, {"customer": "Ann", "total": 12.5}),
        ][turn]
        call = w.ToolCall(f"c{turn}", name, arguments)
        return w.Response(w.Message("assistant", (call,)), w.Usage(10, 5), "tool_use")


def is_positive(invoice: Invoice) -> str | None:
    """Refuse an invoice of nothing."""
    return None if invoice.total > 0 else "total must be positive"


def define(scene: Scene) -> w.AgentDefinition[Invoice]:
    """Define the agent of the scene."""

    @w.tool(keyed=True)
    async def charge(ctx: w.ToolContext[None], n: int) -> str:
        """Charge a card; a key counts once."""
        book = EffectLog(scene.folder / "charges.jsonl")
        if ctx.idempotency_key not in book.counts():
            book.write(ctx.idempotency_key)
        return f"charged {n}"

    return w.define_agent(
        name="invoices",
        model=Reader(),
        output=Invoice,
        helpers=[charge],
        output_tool={"name": GIVE, "description": "Give the invoice."},
        validators=[is_positive],
    )


def scenario(scene: Scene) -> None:
    """Execute, or go on with what a killed process left."""

    async def run() -> None:
        told = EffectLog(scene.folder / "told.jsonl")

        def start(state: w.AgentExecutionState) -> None:
            told.write(f"start {state.attempt}{' again' if state.resumed else ''}")

        def refused(state: w.AgentExecutionState, attempt: w.Attempt[object]) -> None:
            told.write(f"refused {attempt.number}{' again' if state.resumed else ''}")

        callbacks: w.ExecuteCallbacks = {
            "on_attempt_start": start,
            "on_validation_failure": refused,
        }
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            agent = define(scene)
            try:
                outcome = await resume_execution(agent, SESSION, **callbacks)
            except NoSuchSession:
                outcome = await execute_agent(agent, "read", session_id=SESSION, **callbacks)
            assert isinstance(outcome, w.Success), outcome

    asyncio.run(run())


def check(scene: Scene) -> Seen:
    """Look at the journal, the charges and what callbacks were told."""

    async def look() -> Seen:
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            outcome = await resume_execution(define(scene), SESSION)
        store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
        entries = await store.read(SESSION)
        await store.aclose()
        assert isinstance(outcome, w.Success)
        attempts = [(one.number, one.iterations, one.errors) for one in outcome.metadata.attempts]
        replies = sum(type(entry) is Replied for entry in entries)
        problems: list[str] = []
        charges = EffectLog(scene.folder / "charges.jsonl").counts()
        if [*charges.values()] != [1, 1]:
            problems.append(f"charges: {charges}")
        told = EffectLog(scene.folder / "told.jsonl").counts()
        for line, times in told.items():
            if times > 1 and "again" not in line:
                problems.append(f"{line} was told twice without a mark")
        for line in ("start 1", "refused 1", "start 2"):
            if not any(each.startswith(line) for each in told):
                problems.append(f"{line} was never told")
        state = [str(outcome.output), attempts, replies]
        return Seen(state=msgspec.to_builtins(state), problems=tuple(problems))

    return asyncio.run(look())
