"""Real source files for the proof: from the installed packages, and from what npm and Debian ship."""

from __future__ import annotations

import random
import shutil
import subprocess
import sysconfig
from pathlib import Path

from windlass.toolbox.edits.languages import BY_NAME, Language

LARGEST = 100_000
NPM = (
    "@capacitor/android",
    "@tanstack/react-query",
    "cordova-android",
    "preact",
    "react-hot-toast",
    "rxjs",
    "zod",
)
DEBIAN = (
    "ansible-core",
    "golang-github-spf13-cobra-dev",
    "golang-github-stretchr-testify-dev",
    "librust-regex-dev",
    "librust-serde-dev",
)


def installed() -> Path:
    """Return the folder of the packages that are installed here."""
    return Path(sysconfig.get_paths()["purelib"])


def download(folder: Path) -> Path:
    """Fetch and unpack the packages of npm and Debian with their ordinary clients."""
    folder.mkdir(parents=True, exist_ok=True)
    for command in (["npm", "pack", "--silent", *NPM], ["apt-get", "-qq", "download", *DEBIAN]):
        subprocess.run(command, cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL)
    for archive in sorted(one for one in folder.iterdir() if one.is_file()):
        target = folder / "unpacked" / archive.name
        target.mkdir(parents=True, exist_ok=True)
        if archive.suffix == ".tgz":
            shutil.unpack_archive(archive, target, "gztar", filter="data")
        elif archive.suffix == ".deb":
            subprocess.run(["dpkg-deb", "-x", str(archive), str(target)], check=True, timeout=60)
    return folder / "unpacked"


def choose(
    language: Language, folders: list[Path], count: int, seed: int
) -> list[tuple[str, Path]]:
    """Choose files of a language at random: their names relative to their folder, and paths."""
    found: list[tuple[str, Path]] = []
    for folder in folders:
        for suffix in language.suffixes:
            for path in folder.rglob(f"*{suffix}"):
                if path.is_file() and not path.is_symlink() and 0 < path.stat().st_size < LARGEST:
                    found.append((path.relative_to(folder).as_posix(), path))
    found.sort()
    return random.Random(seed).sample(found, min(count, len(found)))


def language_of(name: str) -> Language:
    """Return a language by its name."""
    return BY_NAME[name]
