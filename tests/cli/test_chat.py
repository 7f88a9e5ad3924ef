"""`windlass chat`, piped: a line is a turn, a slash is a command. (On a terminal: test_interrupt.)"""

from __future__ import annotations

import json

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
