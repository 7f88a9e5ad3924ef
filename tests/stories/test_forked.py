"""A process that forks after it has used Windlass: the child begins anew, and neither waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

SCRIPT = """
    import multiprocessing
    import windlass as w
    from windlass.testing import call, scripted

    @w.tool
    def double(n: int) -> int:
        "Twice."
        return 2 * n

    def go(n):
        return w.Agent(scripted(call("double", n=n), str(n)), tools=[double]).run_sync("go").output

    print(go(1))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(*pool.map(go, [2, 3]))
    print(go(4))
    print(len(w.sync.agent_session_list()))
"""


def test_a_forked_child_runs_with_a_loop_threads_and_a_store_of_its_own(tmp_path: Path):
    (tmp_path / "windlass.toml").write_text('[store]\nurl = "sqlite:///shared.db"\n')
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(SCRIPT)],
        cwd=tmp_path,
        env={**os.environ, "WINDLASS_TRUSTED_FILES": str(tmp_path / "windlass.toml")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("1\n2 3\n4\n4\n", "")
