"""Hostile patterns for `grep`: each is answered or refused, and nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.sizes import pick_size
from tests.toolbox.search.hostile_patterns import CATASTROPHIC, list_patterns
from windlass.errors import WindlassError
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.search import process
from windlass.toolbox.search.tools import SearchTools
from windlass.tools.tool import Retry

PATTERNS = list_patterns(pick_size(16, 200, proof="SEARCH"))
AT_ONCE = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def fill(tmp_path: Path) -> None:
    """Write files on which hostile patterns take long."""
    (tmp_path / "a.txt").write_text(
        "a" * 3_000 + "!\n" + "a," * 500 + "\n" + "word word " * 50 + "\n"
    )
    (tmp_path / "b.bin").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\xfa\n\r\n\r\xc3(\n")
    (tmp_path / "empty").write_bytes(b"")


async def try_all(folder: Path, patterns: list[str]) -> list[str]:
    """Search for each pattern, and return how each search ended."""
    tools, at_once = SearchTools(Workspace(folder)), asyncio.Semaphore(AT_ONCE)
    return await asyncio.gather(*[try_pattern(tools, one, at_once) for one in patterns])


async def try_pattern(tools: SearchTools, pattern: str, at_once: asyncio.Semaphore) -> str:
    """Return how a search ended: `answer`, or the words of a refusal."""
    async with at_once:
        try:
            found = await tools.grep(pattern)
        except Retry as error:
            return str(error)
        assert "\n" not in found or found.split("\n")[1].startswith(("a.txt", "c.txt"))
        return "answer"


async def test_grep_with_hostile_patterns_answers_or_refuses_and_never_holds_the_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SECONDS", 0.25)
    before, began = set(os.listdir(folder)), time.thread_time()
    ends = await try_all(folder, PATTERNS)
    # What the thread of the loop worked: 40 ms for each search would be a search of its own.
    assert time.thread_time() - began < 0.04 * len(PATTERNS)
    assert set(os.listdir(folder)) == before
    refused = dict(zip(PATTERNS, ends, strict=True))
    assert any("not done after" in refused[one] for one in CATASTROPHIC if one in refused)
    assert "unterminated" in refused["("]
    assert "answer" in ends


async def test_grep_of_a_single_file_is_ended_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SECONDS", 0.25)
    with pytest.raises(WindlassError, match="not done after"):
        await SearchTools(Workspace(folder)).grep(CATASTROPHIC[0], path="a.txt")
