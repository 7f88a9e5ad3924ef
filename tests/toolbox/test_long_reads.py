"""Reads of long files: a slice takes memory of its own size, not of the file's."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tests.sizes import pick_size
from windlass.toolbox.files import FileTools
from windlass.toolbox.sandbox.paths import Workspace

MEGABYTES = pick_size(40, 1024, proof="SEARCH")


LINES = 50_000  # of one block


@pytest.fixture
def blocks(tmp_path: Path) -> int:
    """Write a long file, and return how many blocks of lines it has."""
    block = b"a line of a long file\n" * LINES
    count = MEGABYTES * 1_000_000 // len(block)
    with open(tmp_path / "long.txt", "wb") as file:
        for _ in range(count):
            file.write(block)
    return count


async def test_file_read_of_a_slice_takes_constant_memory(tmp_path: Path, blocks: int) -> None:
    last = blocks * LINES - 9
    files = FileTools(Workspace(tmp_path))
    tracemalloc.start()
    try:
        shown = await files.file_read("long.txt", offset=last, limit=20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(shown.splitlines()) == 11
    assert shown.startswith(f"long.txt: lines {last} to {last + 9}")
    assert peak < 8_000_000
