"""Precise edits: one node changes and nothing else, or nothing changes and the model hears why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.testing import call, scripted

CART = '''\
class Cart:
    """Things to buy."""

    def total(self, tax=0):
        total = sum(self.items)
        return total + tax

    def show(self):
        print(self.total())  # the total


class Order:
    def total(self):
        return 0
'''


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "cart.py").write_text(CART)
    (folder / "main.py").write_text("from cart import Cart\nprint(Cart().total())\n")
    return folder


async def run(shop: Path, *script: Any, **options: Any) -> tuple[w.AgentResult, Any]:
    model = scripted(*script, "done")
    agent = w.Agent(model, tools=[*w.EditTools(shop)])
    return await agent.run("Change the cart.", **options), model


async def test_edits_change_the_named_nodes_alone(shop: Path) -> None:
    replaced = call(
        "edit_apply_node",
        path="cart.py",
        node="class:Cart/function:total",
        text="def total(self, tax=0):\n    return sum(self.items) + tax",
    )
    added = call(
        "edit_insert_at_anchor",
        path="cart.py",
        anchor="class:Cart/function:total",
        text="def count(self):\n    return len(self.items)",
    )
    renamed = call(
        "edit_rename_symbol",
        path="cart.py",
        symbol="class:Cart/function:total",
        new_name="sum_up",
    )
    out, model = await run(shop, replaced, added, renamed)
    assert [one.outcome for one in out.tool_calls] == ["ok", "ok", "ok"]
    assert (
        (shop / "cart.py").read_text()
        == '''\
class Cart:
    """Things to buy."""

    def sum_up(self, tax=0):
        return sum(self.items) + tax

    def count(self):
        return len(self.items)

    def show(self):
        print(self.sum_up())  # the total


class Order:
    def total(self):
        return 0
'''
    )
    heard = out.tool_calls[2].result
    assert "renamed total to sum_up in 2 places" in heard
    assert "not touched, another file: main.py (lines 2)" in heard
    assert "not renamed, the same word: line 11 (a comment)" in heard
    assert "-    def total(self, tax=0):\n+    def sum_up(self, tax=0):" in heard
    await kept(out, model)


async def test_edit_of_an_ambiguous_name_lists_the_candidates(shop: Path) -> None:
    unclear = call("edit_apply_node", path="cart.py", node="total", text="def total(self): ...")
    out, model = await run(shop, unclear)
    [heard] = out.tool_calls
    assert heard.outcome == "retry"
    assert "class:Cart/function:total (line 4): def total(self, tax=0):" in heard.result
    assert "class:Order/function:total (line 13): def total(self):" in heard.result
    assert (shop / "cart.py").read_text() == CART
    await kept(out, model)


async def test_edit_that_breaks_the_syntax_is_refused_and_shows_where(shop: Path) -> None:
    broken = call(
        "edit_apply_node", path="cart.py", node="Order/total", text="def total(self:\n  1"
    )
    out, model = await run(shop, broken)
    [heard] = out.tool_calls
    assert heard.outcome == "retry" and "syntax error" in heard.result
    assert "line 13" in heard.result and "^" in heard.result
    assert (shop / "cart.py").read_text() == CART
    await kept(out, model)


async def test_edit_of_a_file_that_changed_since_it_was_read_is_refused(shop: Path) -> None:
    edits = w.EditTools(shop)
    first = await edits.edit_dry_run(
        "edit_safe_text_patch", {"path": "cart.py", "old_text": "return 0", "new_text": "return 1"}
    )
    assert (shop / "cart.py").read_text() == CART and "+        return 1" in first.diff
    (shop / "cart.py").write_text(CART.replace("Things", "All things"))
    with pytest.raises(w.EditRefused, match="changed since it was read") as refused:
        await edits.edit_safe_text_patch(
            "cart.py", "return 0", "return 1", digest=first.digest_before
        )
    assert refused.value.code == "changed"
    now = await edits.edit_safe_text_patch("cart.py", "return 0", "return 1")
    assert now.is_changed and "All things" in (shop / "cart.py").read_text()


async def test_edits_are_undone_to_the_byte(shop: Path) -> None:
    crlf = CART.replace("\n", "\r\n").encode() + b"# no line ending \xc3\xa9"
    (shop / "cart.py").write_bytes(b"\xef\xbb\xbf" + crlf)
    edits = w.EditTools(shop)
    model = scripted(
        call("edit_rename_symbol", path="cart.py", symbol="Order", new_name="Bill"),
        call("edit_apply_node", path="cart.py", node="Cart", text="class Cart:\n    pass"),
        call("edit_insert_at_anchor", path="cart.py", anchor="file", position="last", text="x = 1"),
        "done",
    )
    agent = w.Agent(model, tools=[*edits])
    out = await agent.run("go", session_id="undo-me")
    assert [one.outcome for one in out.tool_calls] == ["ok", "ok", "ok"]
    changed = (shop / "cart.py").read_bytes()
    assert changed.startswith(b"\xef\xbb\xbfclass Cart:\r\n    pass\r\n") and b"\n\n" not in changed
    await kept(out, model)
    steps = await w.undo("undo-me", tools=[*edits], name="ann")
    assert [step.outcome for step in steps] == ["ok", "ok", "ok"]
    assert (shop / "cart.py").read_bytes() == b"\xef\xbb\xbf" + crlf


async def test_undo_of_an_edit_is_a_conflict_when_the_file_changed(shop: Path) -> None:
    renamed = call("edit_rename_symbol", path="cart.py", symbol="Order", new_name="Bill")
    out, model = await run(shop, renamed, session_id="late")
    await kept(out, model)
    theirs = (shop / "cart.py").read_text() + "# mine\n"
    (shop / "cart.py").write_text(theirs)
    [step] = await w.undo("late", tools=[*w.EditTools(shop)], name="ann")
    assert step.outcome == "conflict" and "changed since the edit" in (step.detail or "")
    assert (shop / "cart.py").read_text() == theirs


async def test_preview_of_an_edit_shows_its_diff_and_writes_nothing(shop: Path) -> None:
    renamed = call("edit_rename_symbol", path="cart.py", symbol="Order", new_name="Bill")
    out, model = await run(shop, renamed, dry_run="plan")
    [heard] = out.tool_calls
    assert "+class Bill:" in heard.result and "not written" in heard.result
    assert out.plan is not None and [one.tool for one in out.plan.effects] == ["edit_rename_symbol"]
    assert (shop / "cart.py").read_text() == CART
    await kept(out, model)


async def test_edit_outside_the_workspace_is_refused(shop: Path) -> None:
    outside = shop.parent / "secret.py"
    outside.write_text("key = 1\n")
    patch = call("edit_safe_text_patch", path="../secret.py", old_text="1", new_text="2")
    out, model = await run(shop, patch)
    assert out.tool_calls[0].outcome == "retry" and "leads out" in out.tool_calls[0].result
    assert outside.read_text() == "key = 1\n"
    await kept(out, model)


async def test_edit_that_is_repeated_happens_once(shop: Path) -> None:
    edits = w.EditTools(shop)
    asked: dict[str, Any] = {
        "path": "cart.py",
        "text": "def more(self): ...",
        "anchor": "Cart/show",
    }
    await edits.edit_insert_at_anchor(**asked)
    once = (shop / "cart.py").read_text()
    again = await edits.edit_insert_at_anchor(**asked)
    assert not again.is_changed and "already" in again.summary
    patch = ("cart.py", "return 0", "return 0 + 0")
    await edits.edit_safe_text_patch(*patch)
    assert not (await edits.edit_safe_text_patch(*patch)).is_changed
    assert (shop / "cart.py").read_text() == once.replace("return 0", "return 0 + 0")


async def test_edit_of_a_large_file_leaves_the_loop_free(shop: Path) -> None:
    body = "".join(
        [f"def f{number}(a, b):\n    return a + b * {number}\n\n" for number in range(1700)]
    )
    (shop / "large.py").write_text(body)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    try:
        result = await w.EditTools(shop).edit_rename_symbol("large.py", "f17", "g17")
    finally:
        ticker.cancel()
    assert result.is_changed and ticks > 20
    assert (shop / "large.py").read_text() == body.replace("def f17(", "def g17(")


async def test_edit_reminder_is_in_every_request(shop: Path) -> None:
    model = scripted("done")
    agent = w.Agent(model, tools=[*w.EditTools(shop)], on_session_start=w.edit_reminder())
    await agent.run("go")
    sent = model.requests[0].tail[0].text
    for name in ("edit_apply_node", "edit_insert_at_anchor", "edit_rename_symbol", "edit_dry_run"):
        assert name in sent


def test_edit_tools_say_what_they_do_to_files() -> None:
    for tool in w.EditTools("."):
        level = "read_only" if tool.name == "edit_dry_run" else "workspace_write"
        assert tool.annotations["side_effect_level"] == level
        if tool.name != "edit_dry_run":
            assert tool.annotations["path_args"] == ["path"]
            assert tool.annotations["roles"]["path"] == "target"
