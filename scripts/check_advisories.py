"""Compare the locked versions with known vulnerabilities: `python scripts/check_advisories.py`.

Asks the sources of advisories in turn and takes the first that knows any of our dependencies. Exit
codes: 0 nothing is known against a locked version; 1 something is; 2 a part could not be checked;
3 no source could be reached, and nothing was checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pypi", "osv")
FOUND, PARTLY, UNREACHABLE = 1, 2, 3


class Report(NamedTuple):
    """What one source said about one lock."""

    checked: int
    skipped: list[str]
    findings: list[str]
    error: str = ""


def audit(source: str, lock: Path) -> Report:
    """Compare one lock with one source."""
    command = [
        *(sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--timeout", "15"),
        *("--format", "json", "--disable-pip", "--require-hashes"),
        *("--vulnerability-service", source, "-r", str(lock)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    try:
        return read_report(json.loads(done.stdout))
    except ValueError:
        words = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        return Report(0, [], [], words[-1])


def read_report(document: dict[str, Any]) -> Report:
    """Read the JSON that pip-audit writes."""
    skipped: list[str] = []
    findings: list[str] = []
    checked = 0
    for one in document["dependencies"]:
        if "skip_reason" in one:
            skipped.append(one["name"])
            continue
        checked += 1
        for each in one["vulns"]:
            fixed = ", ".join(each.get("fix_versions") or []) or "no version yet"
            findings.append(f"{one['name']} {one['version']}: {each['id']}, fixed in {fixed}")
    return Report(checked, skipped, findings)


def main() -> int:
    """Report for every lock; return the exit code."""
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    reasons: list[str] = []
    for source in SOURCES:
        probe = audit(source, ROOT / "requirements" / "build.lock")
        if probe.checked:
            return report(source, locks)
        reasons.append(
            f"  {source}: {probe.error[:160] or 'knows none of the packages asked about'}"
        )
    print("No advisory source is reachable from here: NOTHING WAS CHECKED.")
    print("\n".join(reasons))
    print("Run `make advisories` again on a machine that reaches one of them.")
    return UNREACHABLE


def report(source: str, locks: list[Path]) -> int:
    """Print what a source says about each lock; return the exit code."""
    code = 0
    for lock in locks:
        found = audit(source, lock)
        print(f"{lock.name}: {found.checked} checked against {source}, {len(found.findings)} found")
        for line in found.findings:
            print(f"  {line}")
        if found.skipped or found.error:
            print(f"  NOT checked: {found.error or ', '.join(found.skipped)}")
            code = code or PARTLY
        if found.findings:
            code = FOUND
    return code


if __name__ == "__main__":
    sys.exit(main())
