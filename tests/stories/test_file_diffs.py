"""Diffs of writes and edits: in questions, in plans and in the trace, for whoever decides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import windlass as w
from tests.stories.helpers import kept
from windlass.cli.main import cli
from windlass.store.memory import MemoryStore
from windlass.testing import call, scripted

CODE = "def total(prices):\n    return sum(prices) + 1\n"
DIFF = """--- a/cart.py
+++ b/cart.py
@@ -1,2 +1,2 @@
 def total(prices):
-    return sum(prices) + 1
+    return sum(prices)"""
FILE_TOOLS = ["file_read", "file_write", "file_edit"]
EDIT = call("file_edit", path="cart.py", old_string=" + 1", new_string="")
EDITS = [
    EDIT,
    call("file_write", path="cart.py", content=CODE.replace(" + 1", "")),
    call("edit_safe_text_patch", path="cart.py", old_text=" + 1", new_text=""),
    call(
        "edit_apply_node",
        path="cart.py",
        node="function:total",
        text=CODE.replace(" + 1", "").rstrip(),
    ),
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "cart.py").write_text(CODE)
    return tmp_path


async def show(words: list[str]) -> str:
    """Run a command and return what it writes."""
    return (await asyncio.to_thread(CliRunner().invoke, cli, words)).output


def ask_about(*names: str) -> Any:
    """Build a policy that asks about calls of these tools."""
    return {"rules": [{"ask": name} for name in names]}


@pytest.mark.parametrize("act", EDITS, ids=lambda act: act.name)
async def test_diff_of_an_edit_is_shown_with_the_question(shop: Path, act: w.ToolCall):
    if act.name == "edit_apply_node":
        pytest.importorskip("tree_sitter")
    store = f"sqlite:///{shop}/.store.db"
    agent = w.Agent(
        scripted(act, "done"),
        tools=[act.name],
        workspace=shop,
        approval_policy=ask_about(act.name),
        store=store,
    )
    out = await agent.run("fix it")
    assert out.status == "suspended" and out.pending[0].diff == DIFF
    (waiting,) = await w.approvals(store)
    assert waiting.diff == DIFF and (shop / "cart.py").read_text() == CODE
    await w.approve(waiting.id, store=store)
    done = await agent.resume(out.session_id)
    assert done.status == "done" and (shop / "cart.py").read_text() == CODE.replace(" + 1", "")
    assert done.tool_calls[0].result.endswith(f"{DIFF}\n")
    await kept(done)
    # The record of the question has it, and so has everything that is drawn from it.
    shown = await show(["sessions", "show", out.session_id, "--store", store])
    assert "+ return sum(prices)" in shown


async def test_diff_of_a_new_file_shows_all_of_it(shop: Path):
    act = call("file_write", path="new/a.txt", content="one\ntwo\n")
    out = await w.agent_loop(
        "go",
        model=scripted(act, "done"),
        tools=FILE_TOOLS,
        workspace=shop,
        approval_policy=ask_about("file_write"),
    )
    assert out.pending[0].diff == "--- a/new/a.txt\n+++ b/new/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two"
    assert not (shop / "new").exists()


async def test_question_about_an_edit_that_would_fail_says_so(shop: Path):
    act = call("file_edit", path="cart.py", old_string="nowhere", new_string="")
    out = await w.agent_loop(
        "go",
        model=scripted(act, "done"),
        tools=FILE_TOOLS,
        workspace=shop,
        approval_policy=ask_about("file_edit"),
    )
    assert (out.pending[0].diff or "").startswith("no diff: ")


async def test_diff_is_computed_on_the_call_that_would_run(shop: Path):
    class Shorten(w.Policy[None]):
        """Write another text than the model asked for."""

        @property
        def name(self) -> str:
            return "shorten"

        async def before_tool(self, run: Any, call: w.ToolCall) -> w.ToolCall:
            return w.ToolCall(call.id, call.name, {**call.arguments, "content": "short\n"})

    out = await w.agent_loop(
        "go",
        model=scripted(call("file_write", path="a.txt", content="long\n" * 9), "done"),
        tools=FILE_TOOLS,
        workspace=shop,
        policies=[Shorten()],
        approval_policy=ask_about("file_write"),
    )
    assert (out.pending[0].diff or "").splitlines()[3:] == ["+short"]


async def test_diff_is_bounded_and_redacted(shop: Path):
    (shop / "env").write_text("key = sk-very-secret-12345\nport = 1\n")
    (shop / "long").write_text("x\n")
    options: dict[str, Any] = {
        "tools": FILE_TOOLS,
        "workspace": shop,
        "approval_policy": ask_about("file_*"),
    }
    edit = call("file_edit", path="env", old_string="port = 1", new_string="port = 2")
    store = MemoryStore()
    async with w.Runtime(store=store, secrets=(w.Secret("sk-very-secret-12345"),)):
        held = await w.agent_loop("go", model=scripted(edit, "done"), **options)
    assert "+port = 2" in (held.pending[0].diff or "")
    assert "very-secret" not in str(await store.read(held.session_id))
    write = call("file_write", path="long", content="line\n" * 20_000)
    out = await w.agent_loop("go", model=scripted(write, "done"), **options)
    diff = out.pending[0].diff or ""
    assert len(diff) < 21_000 and diff.endswith("more lines]")


async def test_plan_of_a_preview_holds_the_diff(shop: Path):
    store = f"sqlite:///{shop}/.store.db"
    agent = w.Agent(scripted(EDIT, "done"), tools=FILE_TOOLS, workspace=shop, store=store)
    out = await agent.run("fix it", dry_run="plan", session_id="look")
    assert out.plan is not None and out.plan.effects[0].note == DIFF
    assert DIFF in out.tool_calls[0].result and (shop / "cart.py").read_text() == CODE
    shown = await show(["plan", "show", "look", "--store", store])
    assert "-    return sum(prices) + 1" in shown


async def test_command_line_and_trace_page_show_the_diff(shop: Path):
    store = f"sqlite:///{shop}/.store.db"
    out = await w.agent_loop(
        "go",
        model=scripted(EDIT, "done"),
        tools=FILE_TOOLS,
        workspace=shop,
        approval_policy=ask_about("file_edit"),
        store=store,
    )
    (waiting,) = await w.approvals(store)
    where = ["--store", store]
    for command in (["approvals", "list"], ["approvals", "show", waiting.id]):
        shown = await show([*command, *where])
        assert "+    return sum(prices)" in shown
    trace = await show(["trace", out.session_id, *where, "--json"])
    assert "+    return sum(prices)" in trace
