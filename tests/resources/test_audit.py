"""The audit log: one row for each call, chained, and what did this agent do is one query."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest

import windlass as w
from windlass.errors import Corrupt, StoreError
from windlass.resources import audit
from windlass.testing import call, scripted

ANN = w.Caller("ann", ("clerk",), "acme")


class Order(w.Resource):
    id: str
    item: str
    amount: int = 1
    card: Annotated[str, w.field(private=True)] = ""


async def work(scope: w.Runtime, session: str = "s1") -> Any:
    model = scripted(
        call("create_order", id="o1", item="pen", card="4111"),
        call("update_order", id="o1", values={"amount": 5}),
        call("get_order", id="o1"),
        call("update_order", id="o1", values={"amount": 6}, version=1),
        call("delete_order", id="o1"),
        "done",
    )
    async with scope:
        agent = w.Agent(model, tools=scope.tools())
        return await agent.run(
            "go", caller=ANN, session_id=session, request_id="r1", conversation_id="c1"
        )


async def test_what_did_this_agent_do(runtime):
    scope = await runtime(Order)
    out = await work(scope)
    rows = await scope.resources.audit(session="s1")
    assert [(one.verb, one.row, one.outcome, one.seq) for one in rows] == [
        ("create", "o1", "ok", 0),
        ("update", "o1", "ok", 1),
        ("get", "o1", "ok", 2),
        ("delete", "o1", "ok", 3),
    ]
    calls = [one.id for one in out.tool_calls if not one.is_error]
    assert [one.call for one in rows] == calls
    first = rows[0]
    assert (first.tenant, first.caller, first.roles) == ("acme", "ann", "clerk")
    assert (first.request, first.conversation, first.tool) == ("r1", "c1", "create_order")
    assert first.chain == "session:s1" and first.run
    (change,) = json.loads(rows[1].changes)
    assert change["diff"] == {"amount": [1, 5]} and change["version"] == [1, 2]
    (made,) = json.loads(first.changes)
    assert made["digest"][0] is None and made["digest"][1] == change["digest"][0]
    assert made["diff"]["card"] == "private" and "4111" not in first.changes


@pytest.mark.parametrize(
    ("which", "count"),
    [
        ({"tenant": "acme"}, 5),
        ({"tenant": "evil"}, 0),
        ({"tenant": None}, 1),
        ({"caller": "ann"}, 5),
        ({"request": "r1"}, 4),
        ({"conversation": "c1"}, 4),
        ({"session": "s1"}, 4),
        ({"tool": "get_order"}, 1),
        ({"resource": "order", "verb": "update"}, 1),
        ({"row": "o1"}, 4),
        ({"outcome": "denied"}, 0),
        ({"since": 0.0}, 6),
        ({"until": 1.0}, 0),
        ({"limit": 2}, 2),
        ({"after": 2}, 4),
        ({"session": "s1' OR 1 = 1 --"}, 0),
    ],
)
async def test_the_log_can_be_asked_by_everything(runtime, which, count):
    scope = await runtime(Order)
    await work(scope)
    await scope.resources[Order].create(id="o2", item="cup", caller=ANN)
    await scope.resources[Order].create(id="o3", item="cup")
    assert len(await scope.resources.audit(**which)) == count


async def test_an_unknown_filter_is_refused(runtime):
    scope = await runtime(Order)
    with pytest.raises(w.ConfigError, match="did you mean 'session'"):
        await scope.resources.audit(sesion="s1")
    assert await scope.resources.audit() == []


async def test_reads_can_be_left_out_and_denials_never_are(runtime):
    class Quiet(w.Resource):
        id: str
        audit_reads = False

        def allow_read(self, caller: w.Caller) -> bool:
            return caller.user != "eve"

    scope = await runtime(Quiet)
    quiet = scope.resources[Quiet]
    await quiet.create(id="q", caller=ANN)
    await quiet.get("q", caller=ANN)
    await quiet.search(caller=ANN)
    with pytest.raises(w.PermissionDenied):
        await quiet.get("q", caller=w.Caller("eve", (), "acme"))
    rows = await scope.resources.audit()
    assert [(one.verb, one.outcome) for one in rows] == [("create", "ok"), ("get", "denied")]
    assert rows[1].reason == "allow_read says no"


async def test_a_call_that_failed_left_nothing(runtime):
    scope = await runtime(Order)
    orders = scope.resources[Order]
    await orders.create(id="o1", item="pen", caller=ANN)
    with pytest.raises(w.Conflict):
        await orders.create(id="o1", item="pen", caller=ANN)
    assert len(await scope.resources.audit()) == 1


async def test_a_known_secret_is_not_written(runtime):
    scope = await runtime(Order, secrets=("hunter2hunter2",))
    await scope.resources[Order].create(id="o1", item="it is hunter2hunter2", caller=ANN)
    (row,) = await scope.resources.audit()
    assert "hunter2" not in row.changes and "it is" in row.changes


async def test_a_long_value_is_named_by_its_digest(runtime):
    scope = await runtime(Order)
    await scope.resources[Order].create(id="o1", item="x" * 10_000, caller=ANN)
    (row,) = await scope.resources.audit()
    assert len(row.changes) < 1000 and "digest" in json.loads(row.changes)[0]["diff"]["item"][1]


async def test_the_chain_shows_what_was_changed(runtime):
    scope = await runtime(Order)
    await work(scope)
    for number in range(3):
        await scope.resources[Order].create(id=f"h{number}", item="pen", caller=ANN)
    rows = await scope.resources.audit()
    heads = audit.verify(rows)
    assert heads["session:s1"] == rows[3].hash and len(heads) == 2
    replace = msgspec.structs.replace
    for at in range(len(rows)):
        for name in ("caller", "tenant", "row", "verb", "reason", "changes", "at", "request"):
            value = 5.0 if name == "at" else "forged"
            bad = [*rows[:at], replace(rows[at], **{name: value}), *rows[at + 1 :]]
            with pytest.raises(Corrupt):
                audit.verify(bad)
    for at in (0, 1, 2):  # cut from the beginning or the middle
        with pytest.raises(Corrupt):
            audit.verify([*rows[:at], *rows[at + 1 :]])
    with pytest.raises(Corrupt):
        audit.verify([rows[1], rows[0], *rows[2:]])


async def test_no_body_can_touch_the_log(runtime):
    scope = await runtime(Order)
    await scope.resources[Order].create(id="o1", item="pen", caller=ANN)
    for sql in (
        "DELETE FROM windlass_audit",
        "UPDATE windlass_audit SET caller = 'eve'",
        "INSERT OR REPLACE INTO windlass_audit (n) VALUES (1)",
        "DROP TABLE windlass_audit",
        "ALTER TABLE windlass_audit RENAME TO x",
        "CREATE TRIGGER t AFTER INSERT ON windlass_audit BEGIN DELETE FROM orders; END",
    ):
        with pytest.raises(StoreError, match="windlass_audit"):
            await scope.store.commit(lambda tx, sql=sql: tx.execute(sql))
    assert len(await scope.resources.audit()) == 1


async def test_calls_of_one_reply_keep_one_chain(runtime):
    scope = await runtime(Order)
    calls = [call("create_order", id=f"o{n}", item="pen") for n in range(8)]
    calls += [call("get_order", id="o0"), call("delete_order", id="none")]
    async with scope:
        agent = w.Agent(scripted(calls, "ok"), tools=scope.tools(), max_concurrent_tools=16)
        out = await agent.run("go", caller=ANN, session_id="s1")
    assert [one.outcome for one in out.tool_calls[:8]] == ["ok"] * 8, out.tool_calls
    rows = await scope.resources.audit(session="s1")
    assert audit.verify(rows) and {one.chain for one in rows} == {"session:s1"}
    assert [one.seq for one in rows] == list(range(len(rows)))
    assert sum(one.verb == "create" for one in rows) == 8


async def test_host_calls_side_by_side_keep_their_chains(runtime):
    import asyncio

    scope = await runtime(Order)
    orders = scope.resources[Order]
    await asyncio.gather(*[orders.create(item=str(n), caller=ANN) for n in range(40)])
    rows = await scope.resources.audit()
    assert len(rows) == 40 and audit.verify(rows)
