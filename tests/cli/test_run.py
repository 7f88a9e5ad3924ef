"""`windlass run`: what it prints where, what it keeps, how it ends, and how it goes on."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import LOOKUP
from windlass.store.sqlite.store import SqliteStore

MOCK = ("--provider", "mock")


def the_session(windlass) -> dict:
    listed = json.loads(windlass("sessions", "list", "--json").stdout)
    assert len(listed) == 1
    return json.loads(windlass("sessions", "show", listed[0]["id"], "--json").stdout)


def entries(windlass, kind: str) -> list[dict]:
    return [event for event in the_session(windlass)["events"] if event["kind"] == kind]


def test_the_answer_is_on_stdout_and_everything_about_it_on_stderr(windlass, module):
    module("shop", LOOKUP)
    done = windlass("run", "price?", *MOCK, "--tools", "shop:look_up")
    assert done.stdout == "Let me look.\nIt costs 59.90.\n"
    lines = done.stderr.splitlines()
    assert lines[0] == '  → look_up(order="A-1")'
    assert lines[1] == "  ← look_up: A-1 costs 59.90"
    assert lines[2].startswith("done · 2 turns · ") and " tokens · $0.00 · " in lines[2]
    assert "\x1b" not in done.output


def test_quiet_says_the_answer_alone(windlass):
    done = windlass("run", "hi", *MOCK, "--quiet")
    assert (done.stdout, done.stderr) == ("Mock reply to: hi\n", "")


def test_a_task_of_a_dash_is_read_from_stdin(windlass):
    assert (
        windlass("run", "-", *MOCK, input="from a pipe\n").stdout == "Mock reply to: from a pipe\n"
    )


def test_sessions_are_kept_in_the_folder_and_out_of_version_control(windlass, project: Path):
    windlass("run", "hi", *MOCK)
    kept = project / ".windlass"
    assert (kept / "sessions.db").exists() and (kept / ".gitignore").read_text() == "*\n"


def test_the_nearest_windlass_toml_says_where_the_project_is(
    windlass, project: Path, monkeypatch: pytest.MonkeyPatch
):
    (project / "windlass.toml").write_text("")
    (project / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "down")
    windlass("run", "hi", *MOCK)
    assert (project / ".windlass" / "sessions.db").exists()


def test_the_store_of_windlass_toml_is_relative_to_the_file(
    windlass, project: Path, monkeypatch: pytest.MonkeyPatch
):
    (project / "windlass.toml").write_text('[store]\nurl = "sqlite:///kept.db"\n')
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    windlass("run", "hi", *MOCK)
    assert (project / "kept.db").exists() and not (project / ".windlass").exists()
    assert [p.name for p in (project / "deep").iterdir()] == []
    windlass("run", "hi", *MOCK, "--store", "here.db")
    assert (project / "deep" / "here.db").exists()


def test_a_store_of_the_environment_counts(windlass, project: Path, monkeypatch):
    monkeypatch.setenv("WINDLASS_STORE_URL", "sqlite:///env.db")
    windlass("run", "hi", *MOCK)
    assert (project / "env.db").exists()


def test_a_named_session_is_continued(windlass):
    windlass("run", "first", *MOCK, "--session", "talk")
    windlass("run", "second", "--session", "talk")  # the model is the session's own
    said = [e["message"]["content"][0]["text"] for e in entries(windlass, "message")]
    assert said == ["first", "second"]


def test_model_that_is_named_is_asked_in_a_session_of_another_model_too(windlass):
    windlass("run", "first", "--model", "mock:small", "--session", "talk")
    windlass("run", "second", "--model", "mock:large", "--session", "talk")
    windlass("run", "third", "--session", "talk")
    windlass("run", "fourth", *MOCK, "--session", "talk")
    begun = [run["model"] for run in entries(windlass, "run_start")]
    assert begun == ["small", "large", "large", "mock"]


def test_the_system_prompt_may_be_a_file(windlass, project: Path):
    (project / "role.md").write_text("You are a pirate.")
    windlass("run", "hi", *MOCK, "--system", "@role.md")
    assert entries(windlass, "frame")[0]["system"] == "You are a pirate."
    gone = windlass("run", "hi", *MOCK, "--system", "@gone.md", code=2)
    assert gone.stderr == "windlass: error: --system @gone.md: No such file or directory\n"


# --------------------------------------------------------------------------- for machines


def test_json_is_one_document(windlass, module):
    module("shop", LOOKUP)
    done = windlass("run", "price?", *MOCK, "--tools", "shop:look_up", "--json")
    result = json.loads(done.stdout)
    assert done.stderr == ""
    assert (result["status"], result["output"], result["turns"]) == ("done", "It costs 59.90.", 2)
    assert [call["name"] for call in result["tool_calls"]] == ["look_up"]
    assert result["resume"] is None and result["usage"]["output_tokens"] == 60


def test_json_stream_is_a_line_for_each_event_and_the_result_last(windlass, module):
    module("shop", LOOKUP)
    done = windlass("run", "x", *MOCK, "--tools", "shop:look_up", "--json", "--stream")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds[-1] == "result" and events[-1]["status"] == "done"
    for kind in ("run_start", "text_delta", "model_reply", "decision", "tool_result", "outcome"):
        assert kind in kinds, kind
    deltas = "".join(e["text"] for e in events if e["kind"] == "text_delta")
    assert deltas == "Let me look.It costs 59.90."


def test_json_cannot_move_a_terminals_cursor(windlass, module):
    module("odd", 'w.llm_mock(text="a\\x1b[2Jb\\x9b1mc")\nasync def nothing(): "x"\n')
    done = windlass("run", "x", *MOCK, "--tools", "odd:nothing", "--json")
    assert not set(done.stdout) & {"\x1b", "\x9b"}
    assert json.loads(done.stdout)["output"] == "a\x1b[2Jb\x9b1mc"


# --------------------------------------------------------------------------- other ends


def test_a_limit_ends_with_1_and_says_how_to_go_on(windlass, module):
    module("shop", LOOKUP)
    done = windlass("run", "x", *MOCK, "-t", "shop:look_up", "--max-turns", "1", code=1)
    *_, end, hint = done.stderr.splitlines()
    assert end.startswith("budget_exhausted (max_iterations) · 1 turn · ")
    command = hint.removeprefix("go on with: windlass ").split()
    assert command[:2] == ["run", "--resume"] and command[3:] == ["--tools", "shop:look_up"]
    again = windlass(*command)
    assert again.stdout.endswith("Continue.\n") or "It costs" in again.stdout
    assert the_session(windlass)["status"] == "done"


@pytest.mark.parametrize("limit", [("--max-tokens-total", "5"), ("--max-cost", "0")])
def test_what_a_run_may_spend_is_limited(windlass, limit):
    done = windlass("run", "a question that is longer than five tokens are", *MOCK, *limit, code=1)
    assert "\nbudget_exhausted (" in done.stderr


def test_a_timeout_ends_the_run_not_the_program(windlass, module):
    module(
        "slow",
        """
        async def wait() -> str:
            '''Wait.'''
            await asyncio.sleep(60)

        w.llm_mock(text="I wait.", tool_calls=[{"name": "wait"}])
    """,
    )
    done = windlass("run", "x", *MOCK, "-t", "slow:wait", "--timeout", "0.05", code=1)
    assert "budget_exhausted (seconds)" in done.stderr
    assert the_session(windlass)["status"] == "budget_exhausted"


def test_a_failing_model_is_one_line_each_and_ends_with_1(windlass, module):
    module(
        "bad",
        """
        async def nothing(): "x"

        w.llm_mock(error={"category": "auth", "message": "the key is wrong"})
    """,
    )
    done = windlass("run", "x", *MOCK, "-t", "bad:nothing", code=1)
    assert "  ! the model failed: the key is wrong\n" in done.stderr
    assert "\nprovider_error: the key is wrong · 0 turns" in done.stderr
    quiet = windlass("run", "x", *MOCK, "-q", "--max-cost", "0", code=1)
    assert "budget_exhausted" in quiet.stderr


HOST = """
    fetch = w.Tool(name="fetch", description="Fetch.", parameters={"url": {"type": "string"}})
    w.llm_mock(tool_calls=[{"name": "fetch", "arguments": {"url": "u"}, "id": "call_7"}])
"""


def test_a_parked_run_says_what_it_waits_for_and_is_answered(windlass, module):
    module("host", HOST)
    parked = windlass("run", "x", *MOCK, "-t", "host:fetch", "--session", "s", code=1)
    assert 'waits: call_7  fetch(url="u")' in parked.stderr
    waits = windlass("run", "--resume", "s", "-t", "host:fetch", code=1)
    assert "suspended" in waits.stderr
    done = windlass("run", "--resume", "s", "-t", "host:fetch", "--result", "call_7=the page")
    assert "← fetch: the page" in done.stderr
    assert the_session(windlass)["status"] == "done"
    wrong = windlass("run", "--resume", "s", "-t", "host:fetch", "--result", "call_7", code=2)
    assert "write it as CALL=VALUE" in wrong.stderr


# --------------------------------------------------------------------------- going on


def test_resume_wants_the_tools_named_again(windlass, module):
    module("shop", LOOKUP)
    windlass("run", "x", *MOCK, "-t", "shop:look_up", "--session", "s", "--max-turns", "1", code=1)
    done = windlass("run", "--resume", "s", code=2)
    assert done.stderr == (
        "windlass: error: this session was run with the tools look_up; "
        "name them again: --tools shop:look_up\n"
    )


EDIT = """
    async def nothing(): "x"

    w.llm_mock(tool_calls=[
        {"name": "file_write", "arguments": {"path": "a", "content": "b"}, "id": "call_1"}
    ])
"""


@pytest.mark.parametrize(
    "given",
    [
        ("--tools-preset", "readwrite"),
        ("--sandbox", "none", "--tools-preset", "readwrite"),
        ("-t", "file_write"),
    ],
)
def test_resume_takes_built_in_tools_again(windlass, module, project: Path, given):
    module("queue_of_edits", EDIT)
    run = ("run", "x", *MOCK, "-t", "queue_of_edits:nothing", "--session", "s", "--ask", "file_*")
    parked = windlass(*run, *given, code=1)
    wanted = windlass("run", "--resume", "s", code=2)
    again = " ".join(given).replace("-t ", "--tools ")
    assert f"name them again: --tools queue_of_edits:nothing {again}\n" in wanted.stderr
    hint = parked.stderr.splitlines()[-1].removeprefix("go on with: windlass ")
    assert again in hint
    done = windlass(*shlex.split(hint), "--allow", "call_1")
    assert "← file_write: a: created, 1 bytes" in done.stderr
    assert (project / "a").read_text() == "b"


def test_resume_takes_a_preset_again_of_which_settings_withhold_a_tool(
    windlass, module, project: Path
):
    module("queue_of_edits", EDIT)
    given = ("-t", "queue_of_edits:nothing", "--tools-preset", "readwrite")
    windlass("run", "x", *MOCK, *given, "--session", "s", "--ask", "file_*", code=1)
    (project / "windlass.toml").write_text('[agent]\ndisallowed_tools = ["grep"]\n')
    windlass("run", "--resume", "s", *given, "--ask", "file_*", "--allow", "call_1")
    assert (project / "a").read_text() == "b"


SERVER = """
from mcp.server import MCPServer

app = MCPServer("calc")


@app.tool()
def add(a: int, b: int) -> int:
    "Add."
    return a + b


app.run()
"""


def test_resume_takes_mcp_servers_again(windlass, module, project: Path):
    calls = '[{"name": "calc__add", "arguments": {"a": 2, "b": 3}, "id": "call_1"}]'
    module("ask", f"w.llm_mock(tool_calls={calls})\nasync def nothing(): 'x'\n")
    entry = {"calc": {"command": sys.executable, "args": ["-c", SERVER]}}
    (project / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    run = ("run", "x", *MOCK, "-t", "ask:nothing", "--mcp", "mcp.json", "--session", "s")
    parked = windlass(*run, "--ask", "calc__*", code=1)
    wanted = windlass("run", "--resume", "s", "-t", "ask:nothing", code=2)
    assert "name them again: --tools ask:nothing --mcp mcp.json\n" in wanted.stderr
    hint = parked.stderr.splitlines()[-1].removeprefix("go on with: windlass ")
    done = windlass(*shlex.split(hint), "--allow", "call_1")
    assert "← calc__add: 5" in done.stderr


def test_resume_of_an_ended_session_takes_a_new_task(windlass):
    windlass("run", "first", *MOCK, "--session", "talk")
    assert windlass("run", "--resume", "tal", "second").stdout == "Mock reply to: second\n"
    assert windlass("run", "--resume", "talk").stdout == "Mock reply to: Continue.\n"


def test_resume_takes_the_session_from_another_process_if_it_is_told_to(
    windlass, module, project: Path
):
    module("host", HOST)
    windlass("run", "x", *MOCK, "-t", "host:fetch", "--session", "s", code=1)
    go_on = ("run", "--resume", "s", "-t", "host:fetch", "--result", "call_7=the page")
    with asyncio.Runner() as runner:
        other = SqliteStore(project / ".windlass" / "sessions.db")
        runner.run(other.open("s", create=False))
        assert "take_over" in windlass(*go_on, code=1).stderr
        assert "← fetch: the page" in windlass(*go_on, "--take-over").stderr
        runner.run(other.aclose())


def test_resume_of_nothing(windlass, project: Path):
    done = windlass("run", "--resume", "s", code=1)
    assert done.stderr.startswith("windlass: error: no session 's': nothing is kept in ")
    assert list(project.iterdir()) == []
    windlass("run", "x", *MOCK, "--session", "talk")
    assert "did you mean 'talk'?" in windlass("run", "--resume", "tlak", code=1).stderr


# --------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("run",), 'a TASK is missing: windlass run "…" (see: windlass run --help)'),
        (("run", "  "), "the TASK is empty (see: windlass run --help)"),
        (("run", "x", "--stream"), "--stream goes with --json"),
        (("run", "x", "--max-turns", "0"), "Invalid value for '--max-turns'"),
        (("run", "x", "--modle", "y"), "no option '--modle'; did you mean '--model'"),
        (("rnu",), "no command 'rnu'; did you mean 'run'? (see: windlass --help)"),
        (("run", "x", "-m", "claude-opus-9.9", "-p", "anthopic"), "did you mean 'anthropic'?"),
        (("run", "x", "-m", "anthropic:claude-opus-4-7"), "set ANTHROPIC_API_KEY"),
        (("run", "x", "-p", "mock", "-t", "nowhere:fn"), "there is no module 'nowhere'"),
        (("run", "x", "-p", "mock", "-t", "json"), "write it as module:function"),
        (
            ("run", "x", "-p", "mock", "-t", "json:lods"),
            "json has no 'lods'; did you mean 'loads'?",
        ),
        (("run", "x", "-p", "mock", "--store", "redis://h"), "is not an address"),
        (("run", "x", "-p", "mock", "--session", "s", "--resume", "s"), "give one of them"),
    ],
)
def test_a_mistake_is_one_line_and_ends_with_2(windlass, project: Path, args, words):
    done = windlass(*args, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("windlass: error: ") and words in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(project.iterdir()) == []  # nothing was made


def test_debug_leaves_the_level_of_logs_as_it_was(windlass):
    before = logging.getLogger("windlass").level
    for line in (("--debug", "models"), ("models", "--debug"), ("--debug", "no-such-command")):
        windlass(*line, code=None)
        assert logging.getLogger("windlass").level == before, line


def test_debug_shows_the_traceback_and_only_debug(windlass, module):
    module("broken", "raise RuntimeError('half written')")
    plain = windlass("run", "x", *MOCK, "-t", "broken:fn", code=2)
    assert plain.stderr == (
        "windlass: error: --tools broken:fn: importing broken failed: RuntimeError: half written\n"
    )
    debug = windlass("run", "x", *MOCK, "-t", "broken:fn", "--debug", code=2)
    assert "Traceback (most recent call last)" in debug.stderr
    assert debug.stderr.endswith(plain.stderr)
    assert windlass("--debug", "run", "x", *MOCK, "-t", "broken:fn", code=2).stderr == debug.stderr


# --------------------------------------------------------------------------- what is never shown


def test_a_key_is_never_shown(windlass, module, monkeypatch: pytest.MonkeyPatch):
    canary = "canary-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    module(
        "leak",
        f"""
        async def leak() -> str:
            '''Leak.'''
            return "{canary}"

        w.llm_mock(text="I say {canary} aloud", tool_calls=[{{"name": "leak"}}])
        w.llm_mock(text="and {canary} again")
    """,
    )
    module("worse", f"raise RuntimeError('{canary}')")
    for more in ((), ("--json",), ("--json", "--stream")):
        done = windlass("run", f"my key is {canary}", *MOCK, "-t", "leak:leak", *more)
        assert "[redacted]" in done.output or not more
        assert canary not in done.output
    for more in ((), ("--debug",)):
        done = windlass("run", "x", *MOCK, "-t", "worse:fn", *more, code=2)
        assert canary not in done.output and "[redacted]" in done.output
    for info in json.loads(windlass("sessions", "list", "--json").stdout):
        for command in ("show", "export"):
            assert canary not in windlass("sessions", command, info["id"]).output


def test_nothing_shown_can_move_a_terminals_cursor(windlass, module):
    evil = "\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\rover\\u202e"
    module(
        "evil",
        f"""
        async def evil(text: str) -> str:
            '''Evil.'''
            return "{evil} result"

        w.llm_mock(text="{evil} said", tool_calls=[{{"name": "evil", "arguments": {{"text": "{evil}"}}}}])
        w.llm_mock(text="bye")
    """,
    )
    done = windlass("run", "x", *MOCK, "-t", "evil:evil", "--session", "s")
    shown = done.output + windlass("sessions", "show", "s").output
    shown += windlass("sessions", "export", "s", "--format", "text").output
    assert "said" in shown and "result" in shown
    assert not set(shown) & set("\x1b\x07\x9b\r\u202e")


TILL = """
    def charge():
        raise KeyError("ledger")

    @w.tool
    def pay() -> str:
        '''Pay.'''
        return charge()

    w.llm_mock(tool_calls=[{"name": "pay", "arguments": {}}])
    w.llm_mock(text="Sorry.")
"""


def test_traceback_of_a_tool_is_drawn_by_the_trace_and_printed_with_debug(windlass, module):
    module("till", TILL)
    module("same", TILL)
    plain = windlass("run", "go", *MOCK, "--tools", "till:pay", "--session", "s1")
    assert "KeyError: 'ledger'" in plain.stderr and "Traceback" not in plain.output
    debug = windlass("--debug", "run", "go", *MOCK, "--tools", "same:pay", "--session", "s2")
    assert "Traceback" in debug.stderr and "in charge" in debug.stderr
    drawn = windlass("trace", "s1")
    assert "in charge" in drawn.stdout and "   KeyError: 'ledger'" in drawn.stdout
    assert "in charge" in windlass("trace", "s1", "--html", "-").stdout
    [raised] = entries_of(windlass, "s1", "tool_result")
    assert raised["traceback"].endswith("KeyError: 'ledger'")


def entries_of(windlass, session: str, kind: str) -> list[dict]:
    shown = json.loads(windlass("sessions", "show", session, "--json").stdout)
    return [event for event in shown["events"] if event["kind"] == kind]


def test_run_without_an_answer_has_null_as_its_output(windlass, module):
    module(
        "bad",
        """
        async def nothing(): "x"

        w.llm_mock(error={"category": "auth", "message": "no key"})
    """,
    )
    done = windlass("run", "hi", *MOCK, "--tools", "bad:nothing", "--json", code=1)
    result = json.loads(done.stdout)
    assert (result["output"], result["final_text"]) == (None, "")
    assert result["error"]["category"] == "auth"


def test_preset_gives_built_in_tools_in_a_workspace(windlass, module, project: Path):
    module(
        "watch",
        """
        async def nothing(): "Do nothing."

        def calls(name, **given):
            return [{"name": name, "arguments": given}]

        w.llm_mock(text="", tool_calls=calls("grep", pattern="pr.ce"))
        w.llm_mock(text="", tool_calls=calls("file_write", path="b.txt", content="cheap"))
        w.llm_mock(text="done")
    """,
    )
    (project / "shop").mkdir()
    (project / "shop/a.txt").write_text("the price\n")
    given = ("--workspace", "shop", "--tools-preset", "readwrite", "--sandbox", "isolated")
    done = windlass("run", "go", *MOCK, "-t", "watch:nothing", *given)
    assert "1 match in 1 file" in done.stderr and (project / "shop/b.txt").read_text() == "cheap"
    refused = windlass("run", "go", *MOCK, "--tools-preset", "read", code=2)
    assert "readonly" in refused.stderr
