"""`windlass chat` on a terminal: pasted lines, Markdown, and approvals in place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.test_interrupt import screen
from windlass.cli.chat.markdown import split_blocks
from windlass.cli.chat.prompt import MessagePrompt

__all__ = ["screen"]
TOOLS = """
    @w.tool(requires_approval=True)
    async def refund(amount: int) -> str:
        "Refund a customer."
        return f"refunded {amount}"

    @w.tool
    async def note(text: str) -> str:
        "Write it down."
        return f"noted {text}"

    for text in ("first", "second", "third"):
        w.llm_mock(tool_calls=[{"name": "refund", "arguments": {"amount": 5}}])
        w.llm_mock(text=f"Answered {text}.")
"""


def started(windlass: Any, session: str) -> list[Any]:
    shown = json.loads(windlass("sessions", "show", session, "--json").stdout)
    return [event for event in shown["events"] if event["kind"] == "run_start"]


def test_chat_takes_pasted_lines_as_one_message_and_shows_markdown(screen, windlass, module):
    module(
        "shop",
        """
        async def nothing(): "x"

        w.llm_mock(text="# Sum\\n\\nIt is **bold**, see `code`.\\n\\n- one\\n- two\\n", match="*two*")
        """,
    )
    chat = screen("chat", "--provider", "mock", "-t", "shop:nothing", "--session", "s")
    chat.until("> ")
    chat.press("\x1b[200~line one\rline two\rline three\x1b[201~\r")
    shown = chat.until("\x1b[0mtwo")
    assert "\x1b[1mbold\x1b[0m" in shown
    assert "**bold**" not in shown
    chat.until("> ")
    chat.press("\x04")
    assert chat.code() == 0
    assert len(started(windlass, "s")) == 1
    assert "line one" in windlass("sessions", "show", "s").stdout


def test_chat_asks_for_approval_in_place(screen, windlass, module):
    module("shop", TOOLS)
    chat = screen("chat", "--provider", "mock", "-t", "shop:refund", "--session", "s")
    chat.until("> ")
    chat.press("first\r")
    chat.until("(y/n/a) ")
    chat.press("what?\r")
    chat.until("(y/n/a) ")
    chat.press("n\r")
    chat.until("Answered first.")
    chat.until("> ")
    chat.press("second\r")
    chat.until("(y/n/a) ")
    chat.press("always\r")
    chat.until("refunded 5")
    chat.until("Answered second.")
    chat.until("> ")
    chat.press("third\r")
    assert "(y/n/a)" not in chat.until("Answered third.")
    chat.until("> ")
    chat.press("\x04")
    assert chat.code() == 0
    decided = json.loads(windlass("sessions", "show", "s", "--json").stdout)["events"]
    allowed = [e for e in decided if e["kind"] == "decision" and e["action"] == "allow"]
    assert [entry.get("scope") for entry in allowed] == ["session", None]


@pytest.mark.parametrize(
    ("text", "blocks", "rest"),
    [
        ("", [], ""),
        ("one", [], "one"),
        ("one\n", [], "one\n"),
        ("one\n\ntwo", ["one"], "two"),
        ("a\nb\n\n\n\nc\n\n", ["a\nb", "c"], ""),
        ("```py\nx\n\ny\n```\n\nz", ["```py\nx\n\ny\n```"], "z"),
        ("```py\nx\n\ny", [], "```py\nx\n\ny"),
        ("~~~\n```\n\n~~~\n\nz", ["~~~\n```\n\n~~~"], "z"),
        ("- a\n\n- b", ["- a"], "- b"),
    ],
)
def test_markdown_is_split_at_blank_lines_outside_of_code(text: str, blocks: Any, rest: str):
    assert split_blocks(text) == (blocks, rest)
    pieces: list[str] = []
    held = ""
    for letter in text:
        done, held = split_blocks(held + letter)
        pieces += done
    assert (pieces, held) == (blocks, rest)


def test_paste_is_read_without_readline(monkeypatch: pytest.MonkeyPatch):
    lines = iter(["\x1b[200~one", "two", "three\x1b[201~"])
    monkeypatch.setattr("builtins.input", lambda *_: next(lines))
    prompt = MessagePrompt()
    monkeypatch.setattr(prompt, "_has_readline", False)
    assert prompt.read() == "one\ntwo\nthree"
