"""`--follow`: the trace of a session, and the picture of a workflow, while the run is under way."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import windlass as w
from tests.cli.background import BackgroundRun
from tests.cli.conftest import start
from tests.cli.test_interrupt import screen
from windlass import seams
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

__all__ = ["screen"]
PATIENCE = 60
FOLLOW = ("trace", "s", "--store", "s.db", "--follow")


@pytest.fixture
def run() -> Iterator[BackgroundRun]:
    made = BackgroundRun()
    yield made
    made.finish()


def build_flow(run: BackgroundRun, fail: bool = False) -> w.Workflow:
    """A function with two steps, of which the second is a sub-agent with a tool."""

    async def gather(topic: str) -> str:
        await run.gate()
        return f"notes on {topic}"

    @w.tool
    async def look_up(order: str) -> str:
        """Find an order."""
        await run.gate()
        if fail:
            raise ValueError("the index is offline")
        return "59.90"

    writer = w.Agent(
        scripted(call("look_up", order="A-1"), "It costs 59.90."), name="writer", tools=[look_up]
    )

    @w.workflow
    async def report(wf: w.WorkflowContext, topic: str) -> str:
        notes = await wf.step(gather, topic)
        return (await wf.run(writer, notes)).output

    return report


def read_until(pipe: IO[str] | None, words: str) -> str:
    """Read lines until one has the words."""
    assert pipe is not None
    lines: list[str] = []
    while not lines or words not in lines[-1]:
        lines.append(pipe.readline())
        assert lines[-1], lines
    return "".join(lines)


def path_of(store: str) -> str:
    """Return the whole path: stores are known by it within the process, and each test has a folder."""
    return str(Path(store).resolve())


def begin(run: BackgroundRun, store: str | None = None, fail: bool = False) -> None:
    flow = build_flow(run, fail)
    run.start(lambda: flow.run("tea", session_id="s", store=store or path_of("s.db")))


# --------------------------------------------------------------------------- without a terminal


def test_follow_prints_each_new_part_once_and_the_picture_at_the_end(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    run.advance_at_each_wait(monkeypatch)
    done = windlass(*FOLLOW)
    live, _, picture = done.stdout.partition("\n\n")
    lines = [re.sub(r"^ *\S+ \S+ +", "", line) for line in live.splitlines()]
    assert lines.index("gather: begins") < lines.index("writer: begins")
    assert len([line for line in lines if line == "gather: begins"]) == 1
    assert "writer > look_up: begins" in lines  # of the session that works for the step
    assert any(re.fullmatch(r"writer > look_up: .*A-1.*", line) for line in lines[:-1])
    assert "done" in lines[-1]
    assert picture.splitlines()[0] == "s  done"
    assert "● gather (step)  done" in picture.replace("*", "●")
    assert "\x1b" not in done.stdout
    assert "s: ended: done" in done.stderr
    plain = windlass("trace", "s", "--store", "s.db").stdout
    assert picture == plain
    assert set(run.slept) == {0.5}


def test_follow_of_a_session_that_has_ended_draws_it_and_does_not_wait(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    run.finish()
    run.advance_at_each_wait(monkeypatch)
    assert windlass(*FOLLOW).stdout.endswith(windlass("trace", "s", "--store", "s.db").stdout)
    assert run.slept == []


def test_follow_waits_for_the_first_run_of_a_session(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    asyncio.run(w.agent_session_open("s", store=path_of("s.db")))
    run.advance_at_each_wait(monkeypatch, lambda: None, lambda: begin(run))
    assert "s: ended: done" in windlass(*FOLLOW).stderr


def test_follow_of_an_unknown_session_is_refused(
    run: BackgroundRun, windlass: Callable[..., Any], project: Path
):
    missing = windlass(*FOLLOW, code=1)
    assert "no session 's': nothing is kept in" in missing.stderr
    begin(run)
    typed = windlass("trace", "z", "--store", "s.db", "--follow", code=1)
    assert "no session 'z'" in typed.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--json",), "--json"),
        (("--html", "-"), "name a file"),
    ],
)
def test_follow_refuses_forms_that_cannot_grow(
    run: BackgroundRun, windlass: Callable[..., Any], more: tuple[str, ...], words: str
):
    begin(run)
    refused = windlass(*FOLLOW, *more, code=2)
    assert words in refused.stderr and "--follow" in refused.stderr


def test_follow_says_that_a_run_was_parked_and_exits_as_without(
    windlass: Callable[..., Any], module: Callable[[str, str], None]
):
    @w.tool(requires_approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        return "paid"

    payer = w.Agent(scripted(call("pay", what="Ann")), name="payer", tools=[pay])

    @w.workflow
    async def pays(wf: w.WorkflowContext, who: str) -> str:
        return (await wf.run(payer, who)).output

    asyncio.run(pays.run("Ann", session_id="s", store=path_of("s.db")))
    parked = windlass(*FOLLOW)
    assert "s: parked" in parked.stderr
    assert re.search(r"payer \(run\)  waits", parked.stdout)


def test_follow_shows_what_failed(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run, fail=True)
    run.advance_at_each_wait(monkeypatch)
    assert "look_up: 0 ms" not in (done := windlass(*FOLLOW)).stdout
    assert "the index is offline" in done.stdout


def test_follow_shows_what_runs_and_what_waits(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    now = windlass("trace", "s", "--store", "s.db").stdout
    assert now.startswith("s  running")
    assert "gather (step)  running" in now and "no end on record:" not in now
    data = json.loads(windlass("trace", "s", "--store", "s.db", "--json").stdout)
    (part,) = data["runs"]
    assert part["under_way"] is True
    assert [(one["name"], one["status"]) for one in part["steps"]] == [("gather", "running")]


def test_two_followers_see_the_same(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    other = start(*FOLLOW)
    read_until(other.stdout, "gather: begins")
    run.advance_at_each_wait(monkeypatch)
    mine = windlass(*FOLLOW).stdout
    rest, about = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0 and "s: ended: done" in about
    picture = mine.partition("\n\n")[2]
    assert rest.endswith(picture)


# --------------------------------------------------------------------------- what goes wrong


KILLED = """
    async def forever(topic: str) -> str:
        print("at work", flush=True)
        await asyncio.sleep(600)

    @w.workflow
    async def report(wf, topic):
        return await wf.step(forever, topic)
"""


def test_follow_says_that_the_process_of_a_run_was_killed(
    windlass: Callable[..., Any],
    module: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
):
    module("flows", KILLED)
    line = ("workflow", "run", "flows:report", "tea", "--session", "s", "--store", "s.db")
    with start(*line) as process:
        assert process.stdout is not None and process.stdout.readline() == "at work\n"

        def kill() -> None:
            process.kill()
            process.wait()

        BackgroundRun().advance_at_each_wait(monkeypatch, lambda: None, kill, *[lambda: None] * 5)
        done = windlass(*FOLLOW)
    assert "s: its process has gone" in done.stderr
    assert "s  unfinished" in done.stdout
    assert re.search(r"forever \(step\)  no end on record", done.stdout)


def test_follow_survives_a_store_that_is_away_for_a_moment(
    run: BackgroundRun,
    windlass: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
):
    begin(run)
    away = project / "away.db"
    run.advance_at_each_wait(
        monkeypatch,
        lambda: os.rename("s.db", away),
        lambda: None,
        lambda: os.rename(away, "s.db"),
    )
    done = windlass(*FOLLOW)
    assert "s.db: it is not there; trying again" in done.stderr
    assert "s: ended: done" in done.stderr
    assert done.stdout.count("gather: begins") == 1


def test_follow_gives_up_a_store_that_stays_away(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    clock = [seams.monotonic()]
    monkeypatch.setattr(seams, "monotonic", lambda: clock[0])

    def pass_time() -> None:
        clock[0] += 10

    run.advance_at_each_wait(monkeypatch, lambda: os.rename("s.db", "away.db"), *[pass_time] * 10)
    gone = windlass(*FOLLOW, code=1)
    assert re.search(r"windlass: error: \S*s.db: it is not there", gone.stderr)
    assert "Traceback" not in gone.stderr
    os.rename("away.db", "s.db")


def test_follow_of_a_session_that_is_deleted_ends_with_an_error(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)

    def delete() -> None:
        with sqlite3.connect("s.db") as db:
            db.execute("DELETE FROM windlass_sessions WHERE id = 's'")
        db.close()

    run.advance_at_each_wait(monkeypatch, delete)
    assert "no session 's'" in windlass(*FOLLOW, code=1).stderr


def test_follow_leaves_the_session_to_its_writer(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    run.advance_at_each_wait(monkeypatch)
    windlass(*FOLLOW)
    assert run.result.status == "done" and run.result.output == "It costs 59.90."


def test_follow_waits_longer_where_the_store_answers_slowly(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    clock = [0.0]

    def passes() -> float:
        clock[0] += 1.0
        return clock[0]

    monkeypatch.setattr(seams, "monotonic", passes)
    run.advance_at_each_wait(monkeypatch)
    windlass(*FOLLOW)
    assert min(run.slept) >= 5.0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_follower_and_not_the_run(run: BackgroundRun, number: int, code: int):
    begin(run)
    with start(*FOLLOW) as process:
        read_until(process.stdout, "gather: begins")
        process.send_signal(number)
        _, about = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert "s: no longer followed; the run goes on" in about and "Traceback" not in about
    run.finish()
    assert run.result.status == "done"


def test_follow_ends_when_nobody_reads_its_lines_any_more(run: BackgroundRun):
    begin(run)
    with start(*FOLLOW) as process:
        assert process.stdout is not None
        read_until(process.stdout, "gather: begins")
        process.stdout.close()
        run.advance()
        run.advance()
        assert process.stderr is not None
        about = process.stderr.read()
        process.wait(PATIENCE)
    assert about == "" and process.returncode not in (0, None)


# --------------------------------------------------------------------------- on a terminal


def test_terminal_is_redrawn_in_place_and_left_with_the_whole_picture(
    run: BackgroundRun, screen: Callable[..., Any]
):
    begin(run)
    shown = screen(*FOLLOW)
    first = shown.until("Ctrl-C")
    assert "\x1b[?1049h" in first and "gather" in first and "running" in first
    run.advance()
    second = shown.until("writer")
    assert "\x1b[H" in second and "\x1b[2J" not in second
    run.finish()
    assert shown.code() == 0
    after = shown.shown.rpartition("\x1b[?1049l")[2]
    assert "done" in after and "look_up" in after and "ended" in after
    assert "\x1b[?1049" not in after


def test_terminal_is_restored_by_ctrl_c(run: BackgroundRun, screen: Callable[..., Any]):
    begin(run)
    shown = screen(*FOLLOW)
    shown.until("Ctrl-C")
    shown.press("\x03")
    assert shown.code() == 130
    after = shown.shown.rpartition("\x1b[?1049l")[2]
    assert "no longer followed" in after and "gather" in after
    assert "Traceback" not in shown.shown


def test_picture_that_is_higher_than_the_terminal_does_not_scroll(
    run: BackgroundRun, screen: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    begin(run)
    run.advance()
    shown = screen(*FOLLOW, rows=12, columns=44)
    frame = shown.until("Ctrl-C").rpartition("\x1b[H")[2]
    rows = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame).replace("\r", "").split("\n")
    assert len(rows) <= 12
    assert max(len(row) for row in rows) <= 44
    assert any("not shown" in row for row in rows)


def test_terminal_that_is_resized_is_drawn_anew(run: BackgroundRun, screen: Callable[..., Any]):
    begin(run)
    shown = screen(*FOLLOW, rows=30, columns=100)
    wide = shown.until("Ctrl-C")
    shown.resize(24, 70)
    shown.until("\x1b[2J")
    narrow = shown.until("Ctrl-C")
    rows = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", narrow).replace("\r", "").split("\n")
    assert max(len(row) for row in rows) <= 70 < max(len(row) for row in wide.split("\r"))


def test_no_color_is_heeded(
    run: BackgroundRun, screen: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    begin(run)
    shown = screen(*FOLLOW)
    frame = shown.until("Ctrl-C")
    assert not re.search(r"\x1b\[(?:\d+;)*3\dm", frame)
    monkeypatch.delenv("NO_COLOR")
    coloured = screen(*FOLLOW)
    assert re.search(r"\x1b\[(?:\d+;)*3\dm", coloured.until("Ctrl-C"))


# --------------------------------------------------------------------------- the page


def live_of(file: Path) -> Any:
    text = file.read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None and text.endswith("</html>\n")
    return json.loads(found[1]).get("live")


def test_page_is_written_again_until_the_run_ends(
    run: BackgroundRun,
    windlass: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
):
    begin(run)
    file, seen = project / "s.html", list[Any]()

    def look() -> None:
        seen.append((live_of(file), file.stat().st_ino, "look_up" in file.read_text("utf-8")))
        run.advance()

    run.advance_at_each_wait(monkeypatch, look, look)
    done = windlass(*FOLLOW, "--html", "s.html")
    assert [bool(live) for live, _, _ in seen] == [True, True]
    assert seen[0][1] != seen[1][1]  # another file in its place
    assert [there for _, _, there in seen] == [False, True]
    assert live_of(file) is None
    assert 'http-equiv="refresh"' not in file.read_text("utf-8")
    assert "s.html" in done.stderr and "ended: done" in done.stderr
    assert [path.name for path in project.iterdir() if "html" in path.name] == ["s.html"]


def test_page_is_final_also_when_the_follower_is_stopped(run: BackgroundRun, project: Path):
    begin(run)
    with start(*FOLLOW, "--html", "s.html") as process:
        read_until(process.stderr, "s.html")
        assert live_of(project / "s.html")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert live_of(project / "s.html") is None


def test_page_in_a_folder_that_is_missing_is_refused(
    run: BackgroundRun, windlass: Callable[..., Any]
):
    begin(run)
    refused = windlass(*FOLLOW, "--html", "none/s.html", code=2)
    assert "--html none/s.html" in refused.stderr


# --------------------------------------------------------------------------- Postgres


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
def test_follow_on_postgres(
    run: BackgroundRun, windlass: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    url = shared_server().schema()
    begin(run, url)
    run.advance_at_each_wait(monkeypatch)
    done = windlass("trace", "s", "--store", url, "--follow")
    assert "s: ended: done" in done.stderr
    assert "writer > look_up: begins" in done.stdout


# --------------------------------------------------------------------------- pictures of workflows


GRAPH = """
    from windlass.testing import scripted
    def model(words):
        return scripted(words)

    graph = {
        "name": "pays",
        "nodes": {"plan": {"model": model("Planned.")}, "pay": {"model": model("Paid.")}},
        "edges": [{"from": "plan", "to": "pay"}],
    }
"""


def build_graph(run: BackgroundRun) -> w.WorkflowGraph:
    @w.tool
    async def check(what: str) -> str:
        """Check."""
        await run.gate()
        return "fine"

    return w.workflow_graph(
        {
            "name": "pays",
            "nodes": {
                "plan": {"tools": [check], "model": scripted(call("check", what="x"), "Planned.")},
                "pay": {"tools": [check], "model": scripted(call("check", what="y"), "Paid.")},
            },
            "edges": [{"from": "plan", "to": "pay"}],
        }
    )


def test_picture_of_a_graph_is_followed(
    run: BackgroundRun,
    windlass: Callable[..., Any],
    module: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
):
    module("flows", GRAPH)
    graph = build_graph(run)
    run.start(lambda: graph.run("Pay Ann.", session_id="s", store=path_of("s.db")))
    run.advance_at_each_wait(monkeypatch)
    draw = ("workflow", "draw", "flows:graph", "--session", "s", "--store", "s.db")
    now = windlass(*draw).stdout
    assert "◐ plan (stage)  running" in now and "○ pay (stage)\n" in now
    done = windlass(*draw, "--follow")
    live, _, picture = done.stdout.partition("\n\n")
    told = [re.sub(r"^ *\S+ \S+ +", "", line) for line in live.splitlines()]
    assert told == ["plan: running", "plan: done, then pay", "pay: running", "pay: done"]
    assert picture == windlass(*draw).stdout and "● pay (stage)  done" in picture
    assert "s: ended: done" in done.stderr


def test_picture_of_a_workflow_is_followed_as_a_page(
    run: BackgroundRun,
    windlass: Callable[..., Any],
    module: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
):
    module("flows", GRAPH)
    graph = build_graph(run)
    run.start(lambda: graph.run("Pay Ann.", session_id="s", store=path_of("s.db")))
    draw = ("workflow", "draw", "flows:graph", "--session", "s", "--store", "s.db", "--follow")
    assert "--output" in windlass(*draw, "--format", "html", code=2).stderr
    file, seen = project / "flow.html", list[str]()

    def look() -> None:
        seen.append(file.read_text("utf-8"))
        run.advance()

    run.advance_at_each_wait(monkeypatch, look, look)
    windlass(*draw, "--format", "html", "--output", "flow.html")
    assert all('http-equiv="refresh"' in text for text in seen)
    assert ">running<" in seen[0] and ">done<" in seen[1]
    last = file.read_text("utf-8")
    assert 'http-equiv="refresh"' not in last and ">running<" not in last
    windlass(*draw, "--format", "mermaid", "--output", "flow.mmd")
    assert 'n1["pay: done"]' in (project / "flow.mmd").read_text("utf-8")


def test_picture_of_a_parked_graph_says_which_node_waits(
    windlass: Callable[..., Any], module: Callable[[str, str], None]
):
    module("flows", GRAPH)

    @w.tool(requires_approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        return "paid"

    nodes = {
        "plan": {"model": scripted("Planned.")},
        "pay": {"tools": [pay], "model": scripted(call("pay", what="Ann"))},
    }
    graph = w.workflow_graph(
        {"name": "pays", "nodes": nodes, "edges": [{"from": "plan", "to": "pay"}]}
    )
    asyncio.run(graph.run("Pay Ann.", session_id="s", store=path_of("s.db")))
    draw = ("workflow", "draw", "flows:graph", "--session", "s", "--store", "s.db", "--follow")
    parked = windlass(*draw)
    assert "● plan (stage)  done" in parked.stdout and "◇ pay (stage)  waits" in parked.stdout
    assert "s: parked" in parked.stderr


def test_follow_of_a_workflow_wants_a_session(
    windlass: Callable[..., Any], module: Callable[[str, str], None]
):
    module("flows", GRAPH)
    refused = windlass("workflow", "draw", "flows:graph", "--follow", code=2)
    assert "--session" in refused.stderr
