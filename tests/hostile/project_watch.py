"""A model and an attacker on this machine, and a project examined in a process that is watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.hostile.project_builder import World
from tests.hostile.project_commands import OUTPUTS
from tests.hostile.project_detector import differences, snapshot

ROOT: Final = Path(__file__).parents[2]
RUNNER: Final = Path(__file__).with_name("project_runner.py")
TEXT: Final = "Hello from the model."


class FakeModel(BaseHTTPRequestHandler):
    """Answers as Anthropic does, to whatever it is asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.keys.append(self.headers.get("x-api-key"))
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked.get("stream"):
            body, kind = "".join(map(_event, _stream())).encode(), "text/event-stream"
        else:
            body, kind = json.dumps(_message()).encode(), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _message() -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }


def _stream() -> Iterator[dict[str, Any]]:
    message = _message() | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": message}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "text_delta", "text": TEXT}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _event(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


class Server(ThreadingHTTPServer):
    """A server of this test's, with the keys that it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FakeModel)
        self.keys: list[str | None] = []
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Forks:
    """A process that has imported everything, and does each project in a child: `forks.run(spec, env)`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(RUNNER)],
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, spec: Path, environment: dict[str, str]) -> int:
        """Run a spec in a child; return its exit status."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{spec}\t{json.dumps(environment)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Report:
    """What a watched process did, and how the files around it changed."""

    def __init__(
        self, outcomes: list[dict[str, Any]], connections: int, changed: list[str]
    ) -> None:
        self.outcomes, self.connections, self.changed = outcomes, connections, changed

    @property
    def faults(self) -> list[str]:
        found = [f"{each['what']}: {fault}" for each in self.outcomes for fault in each["faults"]]
        return found + [f"afterwards: {line}" for line in self.changed]

    def outcome(self, what: str) -> dict[str, Any]:
        return next(each for each in self.outcomes if each["what"] == what)


def watch(world: World, name: str, mode: str, forks: Forks | None = None, **more: str) -> Report:
    """Run the runner in the project, and compare all that is around it."""
    shipped = os.path.lexists(world.store / ".windlass" / "sessions.db")
    skipped = [world.settings.parent, world.output, *_own_files(world, shipped)]
    before = snapshot(world.root, skipped)
    host, port = world.model.split(":")
    spec = world.output / "spec.json"
    places = [os.fspath(each) for each in (world.root, world.project, world.store)]
    spec.write_text(json.dumps([name, *places, host, int(port), mode]))
    environment = world.environment() | {"PYTHONPATH": str(ROOT)} | more
    if forks is not None:
        assert forks.run(spec, environment) == 0, f"{name}: it hung or broke; see standard error"
    else:
        done = subprocess.run(
            [sys.executable, str(RUNNER), str(spec)],
            cwd=world.root,
            env=environment,
            capture_output=True,
            text=True,
            errors="backslashreplace",
        )
        assert done.returncode == 0, done.stderr[-4000:]
    *outcomes, end = json.loads((world.output / "report.json").read_bytes())
    changed = differences(before, snapshot(world.root, skipped))
    if name == "folder_gone":
        changed.remove(f"removed {world.project}")
    return Report(outcomes, end["connections"], changed)


def _own_files(world: World, shipped: bool) -> Iterator[Path]:
    """Yield what Windlass may create in the project: its store, and files the user names."""
    project = Path(os.path.realpath(world.project))
    yield from (project / name for name in OUTPUTS if not os.path.lexists(project / name))
    if not os.path.lexists(project / "transcripts"):
        yield project / "transcripts"
    folder = Path(os.path.realpath(world.store), ".windlass")
    if not os.path.lexists(folder):
        yield folder
    elif not shipped:
        yield from (folder / f"sessions.db{ending}" for ending in ("", "-wal", "-shm"))
    else:  # whoever names a store has it opened; SQLite makes these two beside it
        beside = [folder / f"sessions.db{ending}" for ending in ("-wal", "-shm")]
        yield from (path for path in beside if not os.path.lexists(path))
