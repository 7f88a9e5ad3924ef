"""Ctrl-C, signals, terminals and pipes: with real processes."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import start
from windlass.testing.providers import FakeOpenAI, Silence

PATIENCE = 60  # seconds; only a broken command makes a test wait for it
HOLD = """
    async def hold() -> str:
        '''Hold.'''
        await asyncio.sleep(600)

    def hold_fast() -> str:
        '''Hold a thread.'''
        time.sleep(600)

    w.llm_mock(text="I hold.", tool_calls=[{"name": "hold"}])
"""
FAST = """
    from holding import hold_fast
    w.llm_mock_clear()
    w.llm_mock(text="I hold.", tool_calls=[{"name": "hold_fast"}])
"""


class Screen:
    """A terminal with the command on it: what it shows, and keys to press."""

    def __init__(
        self, *args: str, term: str = "xterm-256color", rows: int = 30, columns: int = 100
    ) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        command = [sys.executable, "-c", "from windlass.cli.main import main; main()", *args]
        sized = ("COLUMNS", "LINES")
        environ = {name: one for name, one in os.environ.items() if name not in sized}
        environ["TERM"] = term
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environ, preexec_fn=_own_terminal
        )
        os.close(slave)
        self.shown, self.place = "", 0  # all of it, and where what was waited for ended
        self._text = codecs.getincrementaldecoder("utf-8")()

    def interrupt(self, words: str) -> None:
        """Press Ctrl-C at a prompt until the words are there, as people do.

        A signal that comes between showing the prompt and waiting for a key is noticed by the
        reader of lines only with the next key.
        """
        self.press("\x03")
        self.until(words, again="\x03")

    def until(self, words: str, again: str = "") -> str:
        """Read until the words are there; what was shown since the last words that were."""
        at, tries = self.place, PATIENCE if again else 1
        while words not in self.shown[at:]:
            while not select.select([self.master], [], [], PATIENCE / tries)[0]:
                tries -= 1
                assert again and tries, self.shown
                self.press(again)
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                piece = b""
            assert piece, f"{words!r} never came:\n{self.shown}"
            self.shown += self._text.decode(piece)
        self.place = self.shown.index(words, at) + len(words)
        return self.shown[at:]

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def code(self) -> int:
        """Wait for the end."""
        while True:
            try:
                ready = select.select([self.master], [], [], PATIENCE)[0]
                piece = os.read(self.master, 65536) if ready else b""
            except OSError:
                piece = b""
            if not piece:
                return self.process.wait(PATIENCE)
            self.shown += self._text.decode(piece)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def screen() -> Iterator:
    screens: list[Screen] = []

    def on(*args: str, **more: Any) -> Screen:
        screens.append(Screen(*args, **more))
        return screens[-1]

    yield on
    for one in screens:
        one.close()


def status_of(project: Path, session: str = "s") -> str | None:
    with closing(sqlite3.connect(project / ".windlass" / "sessions.db")) as db:
        query = "SELECT status FROM windlass_sessions WHERE id = ?"
        return db.execute(query, (session,)).fetchone()[0]


RUN = ("run", "x", "-p", "mock", "--session", "s", "--tools")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_on_the_record_and_says_how_to_go_on(module, project, number, code):
    module("holding", HOLD)
    with start(*RUN, "holding:hold") as process:
        while "→ hold()" not in process.stderr.readline():
            pass
        process.send_signal(number)
        answer, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, rest
    assert answer == "I hold.\n" and "\x1b" not in answer + rest
    *_, end, hint = rest.splitlines()
    assert end.startswith("cancelled · 1 turn · ")
    assert hint == "go on with: windlass run --resume s --tools holding:hold"
    assert status_of(project) == "cancelled"


def test_a_thread_that_does_not_stop_is_left_behind(module, project):
    module("holding", HOLD)
    module("fast", FAST)
    with start(*RUN, "fast:hold_fast") as process:
        while "→ hold_fast()" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "a tool did not stop in time" in rest
    assert status_of(project) == "cancelling"


def test_a_killed_run_is_resumed_in_a_new_process(module, project, windlass):
    module("holding", HOLD)
    with start(*RUN, "holding:hold") as process:
        while "→ hold()" not in process.stderr.readline():
            pass
        process.kill()
        process.communicate()
    assert status_of(project) is None
    module("holding", "async def hold() -> str:\n    raise AssertionError('run twice')\n")
    done = windlass("run", "and then?", "--resume", "s", "-t", "holding:hold")
    # the tool has no key: it is not run again, and the model is told that nobody knows
    assert "✗ hold: interrupted: " in done.stderr
    assert done.stdout == "Mock reply to: x\nMock reply to: and then?\n"
    assert status_of(project) == "done"


async def test_words_are_shown_while_the_model_still_speaks(project, monkeypatch):
    import asyncio

    async with FakeOpenAI("one two three four five six", faults=Silence("mid_body")) as server:
        monkeypatch.setenv("LOCAL_LLM_BASE_URL", server.url)
        process = await asyncio.to_thread(start, "run", "x", "-m", "local:tiny", "--session", "s")
        first = await asyncio.to_thread(process.stdout.read, 3)
        assert first == "one"  # the server says no more, and the reply never ends
        process.send_signal(signal.SIGINT)
        rest, about = await asyncio.to_thread(process.communicate, None, PATIENCE)
    assert process.returncode == 130, about
    assert "six" not in rest and "cancelled" in about
    assert status_of(project) == "cancelled"


def test_a_reader_that_leaves_early_is_no_error(windlass):
    windlass("run", "hi", "-p", "mock")
    with start("sessions", "list", "--json", stdout=subprocess.PIPE) as process:
        process.stdout.close()
        process.stdin.close()
        said = process.stderr.read()
    assert "Traceback" not in said and "error" not in said


# --------------------------------------------------------------------------- on a terminal


def test_on_a_terminal_a_status_line_stands_below_the_words(module, project, screen):
    module("holding", HOLD)
    terminal = screen(*RUN, "holding:hold")
    shown = terminal.until("(Ctrl-C stops)") + terminal.until("hold…")
    assert re.search(r"turn 1 · [\d,]+ tokens · \$0\.00", shown + terminal.until("turn 1"))
    assert "I hold." in terminal.shown and "→" in terminal.shown
    terminal.press("\x03")
    assert terminal.code() == 130
    end = terminal.shown[terminal.shown.rindex("cancelled") :]
    assert "windlass run --resume s --tools holding:hold" in end
    assert status_of(project) == "cancelled"


def test_chat_on_a_terminal(module, project, screen):
    module("holding", HOLD)
    terminal = screen("chat", "-p", "mock", "--session", "s", "-t", "holding:hold")
    terminal.until("> ")
    terminal.interrupt("nothing is running")
    terminal.press("please hold\n")
    terminal.until("hold…")
    terminal.press("\x03")
    terminal.until("cancelled")
    terminal.until("> ")
    terminal.press("hello\n")
    terminal.until("Mock reply to: hello")
    terminal.until("> ")
    terminal.press("\x04")
    assert terminal.code() == 0
    assert "windlass chat --resume s --tools holding:hold" in terminal.shown
    assert status_of(project) == "done"


def test_a_dumb_terminal_gets_plain_words(screen):
    terminal = screen("run", "hi", "-p", "mock", term="dumb")
    assert terminal.code() == 0
    assert "Mock reply to: hi" in terminal.shown and "\x1b" not in terminal.shown


def test_a_run_ends_when_nobody_reads_it_any_more(module, project):
    module("holding", HOLD)
    with start(*RUN, "holding:hold") as process:
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141, said
    assert "nobody reads" in said or "cancelled" in said
    assert "Traceback" not in said and "sink failed" not in said
    assert status_of(project) == "cancelled"
