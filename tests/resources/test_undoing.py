"""Calls to resources are undone from the audit log: rows as they were, or a conflict that says who."""

from __future__ import annotations

from typing import Annotated, Any

import windlass as w
from windlass.resources import audit
from windlass.testing import call, scripted

ANN = w.Caller("ann", (), "acme")


class Product(w.Resource):
    id: str
    name: str
    price: float = 1.0
    pin: Annotated[str | None, w.field(private=True)] = None
    mcp_tools = ["twice"]

    def allow_delete(self, caller: w.Caller) -> bool | str:
        return "gold stays" if self.name == "Gold" else True

    def twice(self, tx: w.ResourceTx) -> Product:
        """Change it twice, and make another."""
        self.price += 1
        made = tx.save(self)
        made.price += 1
        tx.create(Product, id=f"{self.id}-copy", name=self.name)
        return tx.save(made)


async def rows(scope: w.Runtime) -> dict[str, tuple[str, float]]:
    found = await scope.resources[Product].search(sort="id", caller=ANN)
    return {one.id: (one.name, one.price) for one in found.rows}


async def ran(scope: w.Runtime, *script: Any, session_id: str = "s", **options: Any) -> Any:
    given: Any = {"tools": list(scope.resources), "caller": ANN, **options}
    out = await w.Agent(scripted(*script, "ok"), **given).run("go", session_id=session_id)
    assert out.status == "done" and not any(one.is_error for one in out.tool_calls), out.tool_calls
    return out


async def shop(runtime: Any, **options: Any) -> w.Runtime:
    scope = await runtime(Product, **options)
    await scope.resources[Product].create(id="p1", name="Pen", price=2.0, caller=ANN)
    await scope.resources[Product].create(id="p2", name="Ink", price=4.0, caller=ANN)
    return scope


SEED = {"p1": ("Pen", 2.0), "p2": ("Ink", 4.0)}
WORK = (
    call("create_product", id="p3", name="Nib"),
    call("update_product", id="p1", values={"price": 3.0}),
    call("update_product", id="p1", values={"price": 5.0, "name": "Pens"}),
    call("delete_product", id="p2"),
    call("twice_product", id="p3"),
)


async def test_a_session_is_undone_whole_newest_first(runtime: Any):
    scope = await shop(runtime)
    async with scope:
        await ran(scope, *WORK)
        listed = await w.undoable("s")
        own = "what its own code did beside these rows stays"
        assert [one.what for one in listed] == [
            f"set product 'p3' back: price to 1.0; delete product 'p3-copy'; {own}",
            "make product 'p2' again",
            "set product 'p1' back: name to 'Pen', price to 3.0",
            "set product 'p1' back: price to 2.0",
            "delete product 'p3'",
        ]
        assert "p3" in await rows(scope)  # looking changes nothing
        steps = await w.undo("s", name="eve")
        assert [one.outcome for one in steps] == ["ok"] * 5, steps
        assert await rows(scope) == SEED
        found = await scope.resources.audit(session="s")
        assert [row.verb for row in found][5:] == ["undo"] * 5
        audit.verify(await scope.resources.audit())
        again = await w.undo("s")
        assert {one.why for one in again} == {"it was undone by eve"}
        assert await rows(scope) == SEED


async def test_what_somebody_changed_since_is_a_conflict(runtime: Any):
    scope = await shop(runtime)
    bob = w.Caller("bob", (), "acme")
    async with scope:
        await ran(scope, *WORK[:3])
        await scope.resources[Product].update("p1", {"price": 9.0}, caller=bob)
        steps = await w.undo("s")
        assert [one.outcome for one in steps] == ["conflict", "conflict", "ok"]
        assert "changed since, by bob" in (steps[0].why or "")
        assert await rows(scope) == {**SEED, "p1": ("Pens", 9.0)}


async def test_an_older_change_waits_for_the_newer_one(runtime: Any):
    scope = await shop(runtime)
    async with scope:
        await ran(scope, *WORK[:3])
        (older,) = await w.undo("s", "call_2")
        assert older.outcome == "conflict" and "(call call_3)" in (older.why or "")
        await w.undo("s", "call_3")
        (older,) = await w.undo("s", "call_2")
        assert older.outcome == "ok" and (await rows(scope))["p1"] == SEED["p1"]


async def test_rows_that_are_gone_or_there_again_are_conflicts(runtime: Any):
    scope = await shop(runtime)
    products = scope.resources[Product]
    async with scope:
        await ran(scope, call("delete_product", id="p2"))
        await products.create(id="p2", name="Blot", caller=ANN)
        (step,) = await w.undo("s")
        assert step.outcome == "conflict" and "changed since" in (step.why or "")
        assert (await rows(scope))["p2"] == ("Blot", 1.0)


async def test_what_was_changed_behind_the_log_is_a_conflict_too(runtime: Any):
    scope = await shop(runtime)
    async with scope:
        await ran(scope, WORK[1])
        sql = "UPDATE product SET price = 99, _version = _version + 1 WHERE id = ?"
        await scope.store.commit(lambda tx: tx.execute(sql, ("p1",)) and None)
        (step,) = await w.undo("s")
        assert (step.outcome, step.why) == ("conflict", "product 'p1' was changed since")
        assert (await rows(scope))["p1"] == ("Pen", 99)


async def test_what_the_log_does_not_keep_is_not_made_up(runtime: Any):
    scope = await shop(runtime)
    async with scope:
        await ran(scope, call("update_product", id="p1", values={"pin": "1234"}))
        (step,) = await w.undo("s")
        assert "does not keep pin" in (step.why or "")
        await ran(
            scope, call("update_product", id="p1", values={"name": "x" * 3000}), session_id="t"
        )
        await ran(scope, call("update_product", id="p1", values={"name": "short"}), session_id="u")
        (step,) = await w.undo("u")
        assert "does not keep all" in (step.why or "")


async def test_the_caller_must_be_allowed_to_do_the_opposite(runtime: Any):
    scope = await runtime(
        Product, roles={"maker": ["product.create", "product.update"], "boss": ["*"]}
    )
    maker, boss = w.Caller("ann", ("maker",), "acme"), w.Caller("bo", ("boss",), "acme")
    async with scope:
        await ran(scope, call("create_product", id="p3", name="Nib"), caller=maker)
        (step,) = await w.undo("s")
        assert step.outcome == "denied" and "product.delete" in (step.why or "")
        (step,) = await w.undo("s", caller=boss, name="bo")
        assert step.outcome == "ok"
        await ran(scope, call("create_product", id="p4", name="Gold"), caller=boss, session_id="t")
        (step,) = await w.undo("t")
        assert "gold stays" in (step.why or "")
