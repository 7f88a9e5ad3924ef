"""`windlass chat`, piped: a line is a turn, a slash is a command. (On a terminal: test_interrupt.)"""

from __future__ import annotations

import json

from windlass.chat.loop import ChatLoop
from windlass.cli.chat import command as chat_command

MOCK = ("--provider", "mock")


def test_a_line_is_a_turn_of_one_session(windlass):
    done = windlass("chat", *MOCK, "--session", "s", input="first\n\nsecond\n")
    assert done.stdout == "Mock reply to: first\nMock reply to: second\n"
    assert done.stderr.splitlines()[-1] == "go on with: windlass chat --resume s"
    info = json.loads(windlass("sessions", "show", "s", "--json").stdout)
    starts = [event for event in info["events"] if event["kind"] == "run_start"]
    assert len(starts) == 2 and info["status"] == "done"


def test_it_goes_on_where_it_was_left(windlass):
    windlass("chat", *MOCK, "--session", "s", input="first\n")
    done = windlass("chat", "--resume", "s", input="second\n")
    assert done.stdout == "Mock reply to: second\n"


def test_slash_commands(windlass):
    lines = "/session\nhi\n/cost\n/session\n/help\n/csot\n//really\n/exit\nnever said\n"
    done = windlass("chat", *MOCK, "--session", "s", input=lines)
    assert done.stdout == "Mock reply to: hi\nMock reply to: /really\n"
    said = done.stderr
    assert "\ns\ncome back with: windlass chat --resume s\n" in said
    assert "1 model call · 37 tokens · $0.00" in said
    assert "no command '/csot'; did you mean '/cost'?" in said
    for command in ("/help", "/session", "/cost", "/reset", "/exit"):
        assert f"  {command}" in said


def test_reset_forgets_what_was_said_and_keeps_the_record(windlass, module):
    module(
        "watch",
        """
        async def nothing(): "x"

        w.llm_mock(text="secret heard", match="*the word is xyzzy*")
        w.llm_mock(text="nothing heard", match="*what was the word*")
    """,
    )
    lines = "the word is xyzzy\n/reset\nwhat was the word\n"
    done = windlass("chat", *MOCK, "-t", "watch:nothing", "--session", "s", input=lines)
    assert done.stdout == "secret heard\nnothing heard\n"
    assert "xyzzy" in windlass("sessions", "show", "s").stdout


def test_a_chat_nobody_spoke_in_leaves_nothing(windlass, project):
    done = windlass("chat", *MOCK, input="/session\n")
    assert list(project.iterdir()) == [] and "go on" not in done.stderr


def test_piped_it_ends_as_its_last_turn_did(windlass):
    done = windlass("chat", *MOCK, "--max-cost", "0", input="hi\n", code=1)
    assert "budget_exhausted" in done.stderr


def test_chat_lists_its_tools_and_undoes_the_newest_effect(windlass, module, project):
    module(
        "purse",
        """
        from pathlib import Path

        async def unpay(args, result, ctx):
            Path("paid.txt").write_text("back")
            return f"got {args['cents']}"

        @w.tool(undo=unpay)
        async def pay(cents: int) -> str:
            '''Pay.'''
            Path("paid.txt").write_text("paid")
            return "paid"

        w.llm_mock(tool_calls=[{"name": "pay", "arguments": {"cents": 5}}])
        w.llm_mock(text="Paid.")
    """,
    )
    lines = "/undo\npay\n/tools\n/undo\n/UNDO now\n"
    done = windlass("chat", *MOCK, "-t", "purse:pay", "--session", "s", input=lines)
    said = done.stderr
    assert "nothing was done yet" in said and "  pay  Pay." in said
    assert "undone: pay(" in said and "there is nothing that can be undone" in said
    assert (project / "paid.txt").read_text() == "back"
    assert "has no tools" in windlass("chat", *MOCK, input="/tools\n").stderr


def test_chat_runs_on_the_loop_of_agent_chat_loop(windlass, monkeypatch):
    seen: list[object] = []

    class Noted(ChatLoop[object]):
        async def run(self, max_turns: int | None = None) -> str:
            seen.append(self)
            return await super().run(max_turns)

    monkeypatch.setattr(chat_command, "ChatLoop", Noted)
    done = windlass("chat", *MOCK, input="hi\n/a\npasted\n")
    assert len(seen) == 1 and "Mock reply to: hi" in done.stdout
