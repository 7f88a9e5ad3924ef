"""Other frameworks doing the same work, each in an environment of its own. None is needed.

`make bench PEERS=agno,pydantic_ai` installs them under `bench/.work` and adds their rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

from bench.table import Row, micro

ROOT = Path(__file__).parents[2]
PACKAGES = {"agno": "agno==3.1.10", "pydantic_ai": "pydantic-ai-slim==2.66.0"}


def rows(names: list[str]) -> list[Row]:
    """The rows of these peers."""
    unknown = [name for name in names if name not in PACKAGES]
    if unknown:
        raise SystemExit(
            f"PEERS: {unknown[0]!r} is not among those we drive: {', '.join(PACKAGES)}"
        )
    return [row for name in names for row in _measured(name)]


def _measured(name: str) -> list[Row]:
    command = [_python(name), "-m", f"bench.peers.{name}"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    taken = json.loads(done.stdout.splitlines()[-1])
    return [
        Row(f"{PACKAGES[name]}: {what}", ratio, None, micro(peer), micro(bare), (low, high))
        for what, (ratio, peer, bare, low, high) in taken.items()
    ]


def _python(name: str) -> Path:
    """The interpreter of the peer's own environment, made when missing."""
    place = ROOT / "bench" / ".work" / "peers" / name
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not (place / "installed").exists():
        venv.create(place, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PACKAGES[name]], check=True)
        (place / "installed").touch()
    return python
