"""What surrounds a release: the scan for advisories says what it did, and every extra is tried."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts import check_advisories
from scripts.check_advisories import Report, read_report
from scripts.make_release import PROOFS, read_extras

ROOT = Path(__file__).parents[2]


def test_a_release_tries_every_extra():
    assert set(PROOFS) == set(read_extras())


def test_advisories_are_read_from_the_report():
    report = read_report(
        {
            "dependencies": [
                {"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]},
                {"name": "b", "version": "1", "vulns": []},
                {"name": "c", "skip_reason": "not found"},
            ]
        }
    )
    assert report == Report(2, ["c"], ["a 1: X-1, fixed in 2"])


@pytest.mark.parametrize(
    "answer, code, words",
    [
        (Report(0, [], [], "no route to host"), 3, "NOTHING WAS CHECKED"),
        (Report(0, ["a", "b"], []), 3, "NOTHING WAS CHECKED"),
        (Report(2, [], []), 0, "2 checked against pypi, 0 found"),
        (Report(2, [], ["a 1: X-1, fixed in 2"]), 1, "X-1"),
        (Report(2, ["c"], []), 2, "NOT checked: c"),
    ],
)
def test_a_scan_says_what_it_could_not_check(
    answer: Report,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(check_advisories, "audit", lambda _source, _lock: answer)
    assert check_advisories.main() == code
    assert words in capsys.readouterr().out


def test_the_workflow_runs_every_python_that_the_package_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix and re.findall(r'"(3\.\d+)"', matrix[1]) == named
    assert "WINDLASS_POSTGRES" in workflow and "WINDLASS_STORIES: postgres" in workflow
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"make ([a-z-]+)", workflow)) <= set(targets)
