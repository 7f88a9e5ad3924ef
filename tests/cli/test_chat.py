"""`windlass chat`, piped: a line is a turn, a slash is a command. (On a terminal: test_interrupt.)"""

from __future__ import annotations

import json
from io import StringIO

import msgspec

from windlass.cli.chat.approval import ApprovalDesk
from windlass.cli.console import ConsoleOutput
from windlass.sessions.approvals import PendingApproval
from windlass.store.memory import MemoryStore

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


def test_tools_are_listed_and_changes_taken_back(windlass, module, project):
    module(
        "watch",
        """
        async def nothing(): "Do nothing."

        def write(name, content):
            given = {"path": name, "content": content}
            return [{"name": "file_write", "arguments": given}]

        w.llm_mock(text="", tool_calls=write("a.txt", "one"))
        w.llm_mock(text="made it")
        w.llm_mock(text="", tool_calls=write("b.txt", "two"))
        w.llm_mock(text="made it too")
    """,
    )
    given = ("-t", "watch:nothing", "-t", "file_write", "--session", "s")
    lines = "/undo\n/tools\ngo\ngo on\n/undo 3\n/undo\n"
    done = windlass("chat", *MOCK, *given, input=lines)
    said = done.stderr
    assert "there is nothing to take back" in said and "/undo takes back the last change" in said
    assert "  file_write            workspace_write  Write a whole file" in said
    assert '  undone  file_write(path="b.txt"' in said
    assert (project / "a.txt").exists() and not (project / "b.txt").exists()
    windlass("chat", *MOCK, *given, input="/undo all\n")
    assert not (project / "a.txt").exists()


def test_diff_stands_above_the_question(windlass, module, project, monkeypatch):
    module(
        "watch",
        """
        async def nothing(): "Do nothing."

        edit = {"path": "a.txt", "old_string": "one", "new_string": "two"}
        w.llm_mock(text="", tool_calls=[{"name": "file_edit", "arguments": edit}])
        w.llm_mock(text="made it")
    """,
    )
    (project / "a.txt").write_text("one\n")
    (project / "windlass.toml").write_text(
        '[agent]\napproval_policy = {rules = [{ask = "file_*"}]}\n'
    )
    given = ("-t", "watch:nothing", "-t", "file_edit", "--session", "s")
    done = windlass("chat", *MOCK, *given, input="go\n", code=None)
    assert "    -one\n    +two\n" in done.stderr and (project / "a.txt").read_text() == "one\n"


def test_diff_is_shown_to_the_person_at_the_terminal():
    class Yes:
        def choose(self, _question: str, _answers: object) -> str:
            return "yes"

    paper = StringIO()
    desk = ApprovalDesk(MemoryStore(), "s", ConsoleOutput(paper))
    asked = PendingApproval("id", "s", "c", "file_edit", {}, "local", None, None, "rule")
    asked = msgspec.structs.replace(asked, diff="--- a/x\n+++ b/x\n-\told\x1b[2J\n+\tnew")
    assert desk.ask(asked, Yes()) == "yes"
    assert paper.getvalue().endswith("    --- a/x\n    +++ b/x\n    -   old\n    +   new\n")
