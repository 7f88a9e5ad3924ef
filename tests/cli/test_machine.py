"""`windlass doctor`: the levels of the sandbox on this machine."""

from __future__ import annotations

import json

import pytest

from windlass.toolbox.sandbox import bubblewrap
from windlass.toolbox.sandbox.levels import find_problem


def test_doctor_says_which_levels_can_be_had(windlass):
    held = find_problem("workspace") is None or find_problem("isolated") is None
    done = windlass("doctor", code=0 if held else 1)
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["workspace", "isolated", "none"]
    can = [line.split()[2] == "can" for line in lines]
    assert can == [find_problem(one) is None for one in ("workspace", "isolated", "none")]


def test_doctor_names_the_fix_as_json(windlass, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: None)
    bubblewrap.find_isolation_problem.cache_clear()
    known = json.loads(windlass("doctor", "--json", code=None).stdout)
    bubblewrap.find_isolation_problem.cache_clear()
    levels = {one["level"]: one["problem"] for one in known["sandbox"]}
    assert "apt-get install bubblewrap" in levels["isolated"] and levels["none"] is None


def test_doctor_refuses_arguments(windlass):
    assert "unexpected" in windlass("doctor", "openai", code=2).stderr
