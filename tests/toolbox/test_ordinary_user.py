"""The sandbox of an ordinary user: the same rules hold without the rights of root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.toolbox.sandbox.levels import find_problem

USER = 23_456
ROOT = Path(__file__).parents[2]
CODE = """
import asyncio, os, sys
from windlass.toolbox.options import Sandbox
from windlass.toolbox.sandbox.launcher import acquire_warden, release_warden
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.sandbox.session import SandboxSession, SandboxSettings

async def main():
    outside, level = sys.argv[1], sys.argv[2]
    workspace = os.path.join(outside, "ws")
    session = SandboxSession(SandboxSettings(Workspace(workspace), Sandbox(level=level)))
    said = []
    async def run(command):
        started = await session.start(command, said.append)
        ended = await started.wait()
        said.append(f"[{ended.code} {ended.problem}]\\n".encode())
    await run("id -u; echo made > made; cat made; (setsid sleep 88776655 &)")
    await run(f"cat {outside}/secret; echo x > {outside}/new; truncate -s 0 {outside}/secret")
    await run("echo x > /dev/udp/127.0.0.1/9 && echo SENT; grep CapEff /proc/self/status")
    await run("unshare -Ur true && echo UNSHARED; kill -9 1; echo $$")
    await session.close()
    print(b"".join(said).decode())
asyncio.run(main())
"""


def find_interpreter() -> str | None:
    """Return a Python of our version that another user may execute."""
    version = f"python3.{sys.version_info.minor}"
    for one in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin:/bin")):
        if one is None:
            continue
        try:
            done = subprocess.run([one, "-c", ""], user=USER, group=USER, capture_output=True)
        except PermissionError:
            continue
        if done.returncode == 0:
            return one
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
@pytest.mark.parametrize("level", ["workspace", "isolated"])
def test_sandbox_of_an_ordinary_user_holds(open_folder: Path, level: str):
    if (problem := find_problem("workspace" if level == "workspace" else "isolated")) is not None:
        pytest.skip(f"sandbox={level!r}: {problem}")
    python = find_interpreter()
    if python is None:
        pytest.skip("no Python here that another user may execute")
    place = open_folder
    (place / "ws").mkdir()
    (place / "tmp").mkdir()
    (place / "secret").write_text("SECRET")
    for one in (place, place / "ws", place / "tmp", place / "secret"):
        os.chown(one, USER, USER)
    site = next(path for path in sys.path if path.endswith("site-packages"))
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{site}",
        "TMPDIR": str(place / "tmp"),
        "HOME": str(place),
    }
    done = subprocess.run(
        [python, "-c", CODE, str(place), level],
        user=USER,
        group=USER,
        extra_groups=[],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert said.startswith(f"{USER}\nmade\n") and "[0 None]" in said, said
    assert "SECRET" not in said and "SENT" not in said.replace("UNSENT", "") or level == "isolated"
    assert "UNSHARED" not in said and "CapEff:\t0000000000000000" in said
    assert (place / "secret").read_text() == "SECRET" and not (place / "new").exists()
    assert os.listdir(place / "tmp") == []
    assert subprocess.run(["pgrep", "-f", "sleep 88776655"], capture_output=True).returncode == 1
