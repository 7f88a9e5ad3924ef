"""`windlass daemon`: a daemon in one process, its events and its end from others."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from .conftest import start

MOCK = ("--provider", "mock")
Windlass = Callable[..., Result]


def wait_until(windlass: Windlass, status: str, waiting: int = 0) -> dict[str, Any]:
    """Wait until the daemon stands so, as another process sees it."""
    shown: dict[str, Any] = {}
    for _ in range(600):
        done = windlass("daemon", "status", "clerk", "--json", code=None)
        if done.exit_code == 0:
            shown = json.loads(done.stdout)
            if (shown["status"], shown["pending_event_count"]) == (status, waiting):
                return shown
        time.sleep(0.1)
    raise AssertionError(shown)


def test_daemon_command_starts_and_others_trigger_and_stop_it(windlass: Windlass, project: Path):
    process = start("daemon", "start", "clerk", "Wait.", *MOCK, "--persist", "clerk.json", "-q")
    try:
        wait_until(windlass, "idle")
        assert windlass("daemon", "trigger", "clerk", "--kind", "ping").stdout == "event 1\n"
        assert wait_until(windlass, "idle")["last_event"] == 1
        rows = windlass("daemon", "status").stdout.splitlines()
        assert rows[0].split()[:3] == ["DAEMON", "STATUS", "WAITING"]
        assert rows[1].split() == ["clerk", "idle", "0", "-", "1"]
        assert windlass("daemon", "stop", "clerk").stdout == "stopped clerk; 0 events waiting\n"
        said, told = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0 and "clerk: stopped" in told
    assert "Event 1 (ping)" in said and (project / "clerk.json").is_file()
    late = windlass("daemon", "trigger", "clerk", code=1)
    assert "resume it first" in late.output
    process = start("daemon", "resume", "clerk.json", "-q")
    try:
        wait_until(windlass, "idle")
        data = ("--data", '{"n": 5}')
        assert windlass("daemon", "trigger", "clerk", *data).stdout == "event 2\n"
        assert wait_until(windlass, "idle")["last_event"] == 2
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert '"n": 5' in windlass("sessions", "show", "daemon-clerk").stdout
    assert json.loads(windlass("daemon", "status", "clerk", "--json").stdout)["status"] == "stopped"


def test_daemon_command_ends_without_waiting_when_its_watchdog_says_so(windlass: Windlass):
    done = windlass("daemon", "start", "clerk", "Wait.", *MOCK, "--watchdog", "0", code=1)
    assert "daemon clerk: watchdog" in done.output
    shown = json.loads(windlass("daemon", "status", "--json").stdout)
    assert [(one["name"], one["status"]) for one in shown] == [("clerk", "watchdog")]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("trigger", "nobody"), 1, "no daemon 'nobody'"),
        (("stop", "nobody"), 1, "no daemon 'nobody'"),
        (("status", "nobody"), 1, "no daemon 'nobody'"),
        (("resume", "nobody"), 2, "no daemon of this name"),
        (("trigger", "x", "--data", "[]"), 2, "JSON object"),
        (("start", "x", *MOCK, "--wake-interval-ms", "0"), 2, "0 is not in the range"),
        (("start", "x", *MOCK, "--allow", "c1"), 2, "sessions resume"),
    ],
)
def test_daemon_command_refuses(
    windlass: Windlass, arguments: tuple[str, ...], code: int, words: str
):
    assert words in windlass("daemon", *arguments, code=code).output


def test_daemon_status_of_an_empty_folder(windlass: Windlass):
    assert "no daemons" in windlass("daemon", "status").stderr
    assert json.loads(windlass("daemon", "status", "--json").stdout) == []
