"""Kill runs with an MCP server: calls follow the rules of any tool, and no process stays."""

from __future__ import annotations

import sys

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import mcp_scenes as scenes


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_killed_at_points_of_a_run_with_an_mcp_server():
    report = kill_sweep(
        scenes.scenario,
        check=scenes.check,
        every=pick_size(40, 1),
        commits=pick_size(False, True),
        timeout=60,
    )
    print(f"\n{report}")
    report.assert_ok()
