"""Build a release and try it as a user would: `python scripts/make_release.py TOOLS`.

Writes a wheel, an sdist and an SBOM (CycloneDX) to `dist/`. The wheel is installed into an empty
environment once plain, once with each extra and once with all of them; in each the README's lines
run and print what the README says. `TOOLS` is the environment with the tools of the group `release`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
README_RUNNER = ROOT / "scripts" / "run_readme.py"
# What shows that an extra is there: the package that it brings.
PROOFS = {
    "bedrock": "botocore",
    "postgres": "asyncpg",
    "fleet": "windlass.fleet.procrastinate",
    "otel": "opentelemetry.sdk",
    "mcp": "mcp",
    "edit": "tree_sitter",
    "edit-patterns": "ast_grep_py",
    "search": "windlass.toolbox.search.ripgrep as found; assert found.find_ripgrep('/')",
}


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command without what this process's environment adds; return its output."""
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "WINDLASS_", "MAKE", "MFLAGS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    if done.returncode != 0:
        sys.exit(f"$ {' '.join(map(str, command))}\n{done.stdout}\nended with {done.returncode}")
    return done.stdout


def read_extras() -> list[str]:
    """Read the names of the extras from `pyproject.toml`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return list(project["optional-dependencies"])


def build() -> tuple[Path, Path]:
    """Build the wheel from the sdist's sources and return both; the same sources give the same bytes."""
    shutil.rmtree(DIST, ignore_errors=True)
    when = run("git", "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "hatchling", "build", "-d", DIST, SOURCE_DATE_EPOCH=when)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def install(requirement: str, folder: Path) -> Path:
    """Create an empty environment, install one requirement, and return its Python."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        run(uv, "pip", "install", "--quiet", "--python", python, requirement)
    else:
        run(python, "-m", "pip", "install", "--quiet", requirement)
    return python


def try_wheel(wheel: Path, extras: list[str], work: Path) -> None:
    """Install the wheel with some extras, and run the README's lines there."""
    named = f"windlass[{','.join(extras)}]" if extras else "windlass"
    label = "-".join(extras) or "plain"
    python = install(f"{named} @ {wheel.as_uri()}", work / label)
    folder = work / f"{label}-run"
    folder.mkdir()
    run(python, "-m", "pip", "check")
    for extra in extras:
        run(python, "-c", f"import {PROOFS[extra]}", cwd=folder)
    version = run(python.with_name("windlass"), "--version", cwd=folder).strip()
    assert version.split()[-1] in wheel.name, version
    ran = run(
        python, "-W", "error", README_RUNNER, ROOT / "README.md", cwd=folder, HOME=str(folder)
    )
    print(f"{named}: {version}; {ran.strip()}")


def try_sdist(sdist: Path, work: Path) -> None:
    """Build a wheel from the sdist alone: nothing is missing in it."""
    shutil.unpack_archive(sdist, work / "sdist", filter="data")
    (source,) = (work / "sdist").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", work / "again", cwd=source)
    print(f"{sdist.name}: builds the wheel again")


def write_sbom(wheel: Path, tools: Path, work: Path) -> Path:
    """Write what the wheel with all extras is made of, from an environment that holds it."""
    python = install(f"windlass[{','.join(read_extras())}] @ {wheel.as_uri()}", work / "sbom")
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip")
    file = DIST / wheel.name.replace("-py3-none-any.whl", ".cdx.json")
    command = (tools / "bin" / "cyclonedx-py", "environment", python, "--output-reproducible")
    document = json.loads(run(*command, "--of", "JSON", "--pyproject", ROOT / "pyproject.toml"))
    for component in document["components"]:
        # Where the wheel lay on this machine is nobody's business.
        references = component.get("externalReferences", [])
        component["externalReferences"] = [
            each for each in references if not each["url"].startswith("file:")
        ]
    file.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{file.name}: {len(document['components'])} components")
    return file


def main() -> None:
    """Build, try and list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", type=Path)
    parser.add_argument("--only-sbom", action="store_true")
    given = parser.parse_args()
    wheel, sdist = build()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if not given.only_sbom:
            try_sdist(sdist, work)
            extras = read_extras()
            for chosen in ([], *([extra] for extra in extras), extras):
                try_wheel(wheel, chosen, work)
        write_sbom(wheel, (ROOT / given.tools).absolute(), work)
    print("\n".join(f"dist/{path.name}" for path in sorted(DIST.iterdir())))


if __name__ == "__main__":
    main()
