"""Built-in file tools: reads with numbers, writes at once, and no change of what nobody has read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.testing import call, scripted
from windlass.toolbox.names import BUILTIN_NAMES
from windlass.toolbox.registry import FAMILIES

ALL = ["file_read", "file_write", "file_edit", "edit_apply_node", "edit_rename_symbol"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "cart.py").write_text("".join([f"line{n} = {n}\n" for n in range(1, 6)]))
    return folder


def agent(shop: Path, *script: Any, **options: Any) -> tuple[w.Agent, Any]:
    model = scripted(*script)
    return w.Agent(model, tools=ALL, workspace=shop, **options), model


async def test_file_read_shows_numbered_lines_and_a_digest(shop: Path) -> None:
    reader, model = agent(
        shop,
        call("file_read", path="cart.py", offset=2, limit=2),
        call("file_read", path="cart.py", offset=9),
        call("file_read", path="art.py"),
        call("file_read", path="../x"),
        "done",
    )
    (shop / "data.bin").write_bytes(b"\0" * 10)
    out = await reader.run("go")
    shown, beyond, missing, outside = [one.result for one in out.tool_calls]
    head, digest, *lines = shown.split("\n")
    assert head == "cart.py: lines 2 to 3; there are more, read on with offset=4"
    assert digest.startswith("digest ") and len(digest) == 23
    assert lines == ["     2\tline2 = 2", "     3\tline3 = 3"]
    assert "has 5 lines" in beyond and "did you mean 'cart.py'" in missing
    assert "leads out" in outside
    await kept(out, model)


async def test_file_write_and_edit_show_a_diff_and_are_undone(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (shop / "cart.py").read_bytes()
    writer, model = agent(
        shop,
        call("file_write", path="new/deep.txt", content="hello\n"),
        call("file_edit", path="cart.py", old_string="line2 = 2", new_string="line2 = 22"),
        call("file_write", path="cart.py", content="all = 'new'\n"),
        "done",
    )
    out = await writer.run("go", session_id="s")
    assert [one.outcome for one in out.tool_calls] == ["ok", "ok", "ok"]
    assert (shop / "new/deep.txt").read_text() == "hello\n"
    assert "-line2 = 2\n+line2 = 22" in out.tool_calls[1].result
    await kept(out, model)
    monkeypatch.chdir(shop)
    steps = await w.undo("s", tools=ALL, name="ann")
    assert [one.outcome for one in steps] == ["ok", "ok", "ok"]
    assert (shop / "cart.py").read_bytes() == before
    assert not (shop / "new/deep.txt").exists()


async def test_changes_of_a_preset_are_undone_without_naming_its_tools(
    shop: Path, tmp_path: Path
) -> None:
    @w.tool
    def file_edit(path: str) -> str:
        """Edit a file in a way of the program's own."""
        return path

    before, store = (shop / "cart.py").read_bytes(), f"sqlite:///{tmp_path}/s.db"
    model = scripted(
        call("file_write", path="new.txt", content="hello\n"),
        call("file_edit", path="cart.py", old_string="line2 = 2", new_string="line2 = 22"),
        "done",
    )
    given: dict[str, Any] = {"workspace": shop, "store": store}
    await w.Agent(model, tool_preset="readwrite", **given).run("go", session_id="s")
    own = scripted(
        call("file_edit", path="x"), call("file_write", path="a.txt", content="a"), "done"
    )
    agent = w.Agent(own, tools=["file_write", file_edit], **given)
    await agent.run("go", session_id="own")
    steps = await w.undo("s", store=store)
    assert [one.outcome for one in steps] == ["ok", "ok"]
    assert (shop / "cart.py").read_bytes() == before and not (shop / "new.txt").exists()
    write, edit = await w.undoable("own", store=store)
    assert "the tool 'file_edit' is not here" in str(edit.why) and write.why is None
    os.rename(shop, tmp_path / "elsewhere")
    write, _ = await w.undoable("own", store=store)
    assert "the tool 'file_write' is not here" in str(write.why)


async def test_change_of_a_file_that_changed_since_the_model_read_it_is_refused(shop: Path) -> None:
    @w.tool(side_effect_level="read_only")
    def meddle() -> str:
        """Change the file behind the model's back."""
        (shop / "cart.py").write_text("line1 = 1\nmine = 2\n")
        return "ok"

    edit = call("file_edit", path="./cart.py", old_string="line1 = 1", new_string="line1 = 0")
    model = scripted(
        call("file_read", path="cart.py"),
        call("meddle"),
        edit,
        call("edit_rename_symbol", path="cart.py", symbol="line1", new_name="one"),
        call("file_read", path="cart.py"),
        edit,
        "done",
    )
    editor = w.Agent(model, tools=[*ALL, meddle], workspace=shop)
    out = await editor.run("go")
    heard = out.tool_calls
    assert [one.outcome for one in heard] == ["ok", "ok", "retry", "retry", "ok", "ok"]
    assert "changed since it was read" in heard[2].result and "read it again" in heard[2].result
    assert (shop / "cart.py").read_text() == "line1 = 0\nmine = 2\n"
    await kept(out, model)


async def test_what_was_read_is_remembered_after_a_resume(shop: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    reader, _ = agent(shop, call("file_read", path="cart.py"), "read", store=store)
    await reader.run("read", session_id="s")
    (shop / "cart.py").write_text("other = 1\n")
    patch = call("file_edit", path="cart.py", old_string="other", new_string="mine")
    again, model = agent(shop, patch, "done", store=store)
    out = await again.run("edit", session_id="s")
    assert out.tool_calls[-1].outcome == "retry" and "changed since" in out.tool_calls[-1].result
    assert (shop / "cart.py").read_text() == "other = 1\n"


async def test_edits_of_one_file_follow_each_other(shop: Path) -> None:
    editor, model = agent(
        shop,
        call("file_read", path="cart.py"),
        [
            call("file_edit", path="cart.py", old_string="line1 = 1", new_string="line1 = 0"),
            call("edit_rename_symbol", path="cart.py", symbol="line5", new_name="five"),
        ],
        call("file_edit", path="cart.py", old_string="line2 = 2", new_string="line2 = 0"),
        "done",
    )
    out = await editor.run("go")
    assert [one.outcome for one in out.tool_calls] == ["ok"] * 4
    assert (shop / "cart.py").read_text().split("\n")[:2] == ["line1 = 0", "line2 = 0"]
    assert "five = 5" in (shop / "cart.py").read_text()
    await kept(out, model)


def test_names_of_built_in_tools_are_those_of_the_registry() -> None:
    assert frozenset(FAMILIES) == BUILTIN_NAMES
