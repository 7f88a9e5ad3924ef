"""What is tracked: no machine's paths, no registry's address, no key, and lists that agree."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import windlass

ROOT = Path(__file__).parents[2]

MACHINE_PATH = re.compile(r"(?<![\w./:}-])/(?:work|root|home/\w+|Users/\w+|tmp|opt/\w+)(?:/|\b)")
REGISTRY = re.compile(
    r"https?://[^\s\"'<>]*(?:pypi|pythonhosted|npmjs|artifactory|nexus|/simple\b)|\b(?:extra-)?index-url\b"
    r"|--find-links",
    re.IGNORECASE,
)
KEY = re.compile(
    r"sk-ant-api\d\d-[\w-]{40,}|sk-proj-[\w-]{40,}|\bgh[pousr]_\w{36}|\bhf_[A-Za-z]{34}\b|AKIA[0-9A-Z]{16}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)


@cache
def tracked() -> dict[str, str]:
    """The text of every tracked file but this one, which must spell out what it looks for."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    files.discard(Path(__file__).relative_to(ROOT).as_posix())
    return {name: (ROOT / name).read_text("utf-8", errors="replace") for name in sorted(files)}


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_the_patterns_find_what_they_should():
    here = "/".join(("", "work", "main"))  # in pieces: no tracked file spells such a path out
    for bad in ('open("/tmp/x")', f"see {here}", "/home/ann/.config", "cd /root"):
        assert MACHINE_PATH.search(bad), bad
    for fine in (
        f"src{here}",
        "https://example.com/tmp/x",
        "a/root",
        "{root}/tmp/",
        "../shared/wire",
    ):
        assert not MACHINE_PATH.search(fine), fine
    assert REGISTRY.search("--extra-index-url x") and REGISTRY.search("https://host/pypi/simple/")
    assert not REGISTRY.search("https://api.openai.com/v1")
    assert KEY.search("ghp_" + "a" * 36)


def test_no_machine_paths():
    assert found(MACHINE_PATH) == []


def test_no_registry_addresses():
    assert found(REGISTRY) == []
    hosts = {
        urlsplit(word).hostname or ""
        for name, value in os.environ.items()
        if re.search("INDEX|REGISTRY|PROXY", name, re.IGNORECASE)
        for word in value.split()
    } - {"", "localhost", "127.0.0.1", "::1"}
    for host in hosts:
        assert found(re.compile(re.escape(host))) == []


def test_no_keys():
    assert found(KEY) == []


# --------------------------------------------------------------------------- requirements


def names_in(lines: list[str]) -> set[str]:
    return {
        re.split(r"[\[<>=;! ]", line, maxsplit=1)[0].lower().replace("_", "-") for line in lines
    }


def read_lock(name: str) -> dict[str, list[str]]:
    """The pinned requirements of a lock, each with the hashes of its files."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text().replace("\\\n", "")
    pins: dict[str, list[str]] = {}
    for line in text.splitlines():
        pin, *hashes = re.split(r"\s+--hash=", line.strip())
        pins[pin] = hashes
    return pins


LOCKS = sorted(path.stem for path in (ROOT / "requirements").iterdir())


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_names_versions_and_hashes_only(lock: str):
    pins = read_lock(lock)
    assert pins
    for pin, hashes in pins.items():
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.+!]+( ; .+)?", pin), pin
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), pin


def test_a_lock_has_the_name_of_its_group():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(LOCKS) == {"run", *project["dependency-groups"]}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_covers_what_the_project_asks_for(lock: str):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = list(project["dependency-groups"].get(lock, []))
    if lock in ("run", "dev", "deep"):
        asked += project["project"]["dependencies"]
    assert names_in(asked) - names_in(list(read_lock(lock))) == set()


def test_build_tools_are_locked_apart():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == project["dependency-groups"]["build"]
    assert "hatchling" in names_in(list(read_lock("build")))
    assert not names_in(list(read_lock("run"))) & {"hatchling", "uv", "trove-classifiers"}


def test_environments_that_are_shared_agree_on_versions():
    seen: dict[str, str] = {}
    for lock in ("build", "run", "dev", "docs", "deep"):
        for pin in read_lock(lock):
            name = pin.split("==")[0]
            if " ; " not in pin:
                assert seen.setdefault(name, pin) == pin, lock


# --------------------------------------------------------------------------- version


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    home = project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{windlass.__version__}"' in tracked()[home]
    assert version("windlass") == windlass.__version__
    again = re.compile(rf"version[\W_]{{1,8}}{re.escape(windlass.__version__)}\b", re.IGNORECASE)
    assert [line.split(":")[0] for line in found(again)] == [home]


# --------------------------------------------------------------------------- README and Makefile


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_makefile_has_its_targets():
    assert {"demo", "test", "check", "check-deep", "bench", "format", "lock"} <= targets()
    assert {"docs", "newcomer", "release", "sbom", "advisories"} <= targets()


def test_the_readme_opens_with_two_commands_that_exist():
    readme = (ROOT / "README.md").read_text()
    first_screen = "\n".join(readme.splitlines()[:40])
    commands = re.findall(r"^make ([a-z-]+)", first_screen, re.MULTILINE)
    assert commands == ["demo", "test"]
    assert {*re.findall(r"(?:^|`)make ([a-z-]+)", readme, re.MULTILINE)} <= targets()


def test_links_between_our_own_pages_lead_somewhere():
    for name, text in tracked().items():
        if name.endswith(".md"):
            for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
                assert (ROOT / name).parent.joinpath(link).exists(), f"{name}: {link}"
