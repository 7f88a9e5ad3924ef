"""Built-in search: lines and files of a workspace, as .gitignore leaves them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.testing import call, scripted
from windlass.toolbox.search import process, ripgrep, tools

TOOLS = ["grep", "glob"]
HAS_RIPGREP = ripgrep.find_ripgrep("/nowhere") is not None


@pytest.fixture(params=["ripgrep", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(tools, "find_ripgrep", lambda *_: None)
    elif not HAS_RIPGREP:
        pytest.skip("there is no ripgrep")
    return request.param


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "shop"
    (folder / "src/deep").mkdir(parents=True)
    (folder / "build").mkdir()
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("total = 1\n")
    (folder / ".gitignore").write_text("build/\n*.log\n!keep.log\n")
    (folder / "src/.gitignore").write_text("/secret.py\n")
    (folder / "src/cart.py").write_text("# cart\ndef total():\n    return 1\n\n\ntotal()\n")
    (folder / "src/deep/tax.py").write_bytes(b"\xef\xbb\xbftotal = 2\r\nend = 3\r\n")
    (folder / "src/secret.py").write_text("total = 'no'\n")
    (folder / "src/deep/secret.py").write_text("total = 'yes'\n")
    (folder / "build/out.py").write_text("total = 'built'\n")
    (folder / "run.log").write_text("total\n")
    (folder / "keep.log").write_text("total kept\n")
    (folder / ".env").write_text("TOTAL=5\n")
    (folder / "data.bin").write_bytes(b"total\0total\n")
    (tmp_path / "outside.py").write_text("total = 'outside'\n")
    os.symlink(tmp_path / "outside.py", folder / "link.py")
    os.symlink(tmp_path, folder / "up")
    yield folder


async def run(shop: Path, *calls: w.ToolCall, **options: Any) -> list[str]:
    model = scripted(*calls, "done")
    out = await w.agent_loop("go", model=model, tools=TOOLS, workspace=shop, **options)
    await kept(out, model)
    return [one.result for one in out.tool_calls]


async def test_grep_shows_lines_that_gitignore_leaves(shop: Path, engine: str) -> None:
    (found,) = await run(shop, call("grep", pattern="total"))
    assert found.split("\n") == [
        "5 matches in 4 files",
        "keep.log:1: total kept",
        "src/cart.py:2: def total():",
        "src/cart.py:6: total()",
        "src/deep/secret.py:1: total = 'yes'",
        "src/deep/tax.py:1: total = 2",
    ]


async def test_grep_takes_a_path_a_glob_a_limit_context_and_case(shop: Path, engine: str) -> None:
    inside, only, limited, around, folded, named, ignored = await run(
        shop,
        call("grep", pattern="^total = .$", path="src/deep"),
        call("grep", pattern="total", glob="src/**/t*.{py,txt}"),
        call("grep", pattern="total", max_results=2),
        call("grep", pattern="^def |^$", path="src", context=1),
        call("grep", pattern="^total=", ignore_case=True),
        call("grep", pattern="total", path="src/cart.py"),
        call("grep", pattern="built", path="build"),
    )
    assert inside == "1 match in 1 file\nsrc/deep/tax.py:1: total = 2"
    assert only == "1 match in 1 file\nsrc/deep/tax.py:1: total = 2"
    assert limited.startswith("the first 2 matches; there are more") and "cart.py:2" in limited
    assert around.split("\n")[1:] == [
        "src/cart.py-1- # cart",
        "src/cart.py:2: def total():",
        "src/cart.py-3-     return 1",
        "src/cart.py:4: ",
        "src/cart.py:5: ",
        "src/cart.py-6- total()",
    ]
    assert folded == "1 match in 1 file\n.env:1: TOTAL=5"
    assert named.startswith("2 matches in 1 file\nsrc/cart.py:2:")
    assert ignored == "1 match in 1 file\nbuild/out.py:1: total = 'built'"


async def test_glob_lists_files_that_gitignore_leaves(shop: Path, engine: str) -> None:
    every, python, inside, absolute, limited, none = await run(
        shop,
        call("glob", pattern="**"),
        call("glob", pattern="*.py"),
        call("glob", pattern="deep/*.py", path="src"),
        call("glob", pattern=f"{shop}/src/*.py"),
        call("glob", pattern="**/*.py", max_files=2),
        call("glob", pattern="*.rs"),
    )
    assert every.split("\n")[1:] == [
        ".env",
        ".gitignore",
        "data.bin",
        "keep.log",
        "src/.gitignore",
        "src/cart.py",
        "src/deep/secret.py",
        "src/deep/tax.py",
    ]
    assert python.split("\n") == ["3 files", *every.split("\n")[6:]]
    assert inside == "2 files\nsrc/deep/secret.py\nsrc/deep/tax.py"
    assert absolute == "1 file\nsrc/cart.py"
    assert limited == (
        "the first 2 files; there are more: narrow the pattern or the path\n"
        "src/cart.py\nsrc/deep/secret.py"
    )
    assert none == "no file matches '*.rs' in ."


async def test_search_of_what_cannot_be_is_an_error_that_says_how_to_mend_it(
    shop: Path, engine: str
) -> None:
    results = await run(
        shop,
        call("grep", pattern="("),
        call("grep", pattern="x", path="../"),
        call("grep", pattern="x", path="up"),
        call("grep", pattern="x", path="sr"),
        call("grep", pattern="x", path="data.bin"),
        call("grep", pattern="x" * 20_000),
        call("grep", pattern="x", glob="../*.py"),
        call("glob", pattern="../*"),
        call("glob", pattern=""),
        call("glob", pattern="*", path="src/cart.py"),
        call("glob", pattern="*", path="/etc"),
    )
    for result, words in zip(
        results,
        [
            "unterminated subpattern",
            "leads out",
            "leads out",
            "did you mean 'src'",
            "binary file of 12 bytes",
            "10,000 are the most",
            "goes up with '..'",
            "goes up with '..'",
            "it is empty",
            "is a file, not a folder",
            "leads out",
        ],
        strict=True,
    ):
        assert words in result


async def test_search_finds_files_in_a_mount(shop: Path, engine: str) -> None:
    lib = shop.parent / "lib"
    lib.mkdir()
    (lib / "a.py").write_text("total\n")
    lines, files = await run(
        shop,
        call("grep", pattern="total", path=str(lib)),
        call("glob", pattern="*", path="../lib"),
        mounts={"../lib": "read"},
    )
    assert lines == f"1 match in 1 file\n{lib}/a.py:1: total"
    assert files == f"1 file\n{lib}/a.py"


async def test_search_tools_are_reads_that_begin_before_the_reply_ends(shop: Path) -> None:
    for tool in w.Agent(scripted("x"), tools=TOOLS, workspace=shop).plan.tools.values():
        assert tool.effect == "read_only"
        labels = {"kind": "search", "side_effect_level": "read_only", "result": "untrusted"}
        assert tool.annotations == {**tool.annotations, **labels, "path_args": ["path"]}


async def test_grep_with_a_catastrophic_pattern_is_ended_and_holds_nobody(
    shop: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SECONDS", 0.2)
    (shop / "long.txt").write_text("a" * 5_000 + "!\n")
    gaps: list[float] = []

    async def beat() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    beating = asyncio.create_task(beat())
    (found,) = await run(shop, call("grep", pattern="^(a+)+(?<=b)", glob="long.txt"))
    beating.cancel()
    assert "not done after 0.2 seconds" in found and "simpler pattern" in found
    assert len(gaps) > 20  # the loop went on for more than a second


async def test_grep_that_is_cancelled_leaves_no_process(shop: Path, engine: str) -> None:
    (shop / "long.txt").write_text("a" * 5_000 + "!\n")
    search = tools.SearchTools(tools.Workspace(shop))
    before = set(os.listdir("/proc/self/fd"))
    others = set(_find_children())  # of other tests in this process: a database server
    task = asyncio.create_task(search.grep("^(a+)+(?<=b)", glob="long.txt"))
    children = await asyncio.to_thread(_wait_for_child, None, others)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children and not set(_find_children()) - others
    await asyncio.sleep(0)
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 1  # the one that lists them


def _wait_for_child(owner: int | None = None, others: Collection[str] = ()) -> list[str]:
    while not (found := [one for one in _find_children(owner) if one not in others]):
        time.sleep(0.01)
    return found


def _find_children(owner: int | None = None) -> list[str]:
    """Return the processes that this one, or another, started and that still run."""
    found: list[str] = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                status = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if status[1] == str(owner or os.getpid()) and status[0] != "Z":
                found.append(name)
    return found


def test_search_process_ends_with_its_program(shop: Path) -> None:
    (shop / "long.txt").write_text("a" * 5_000 + "!\n")
    program = (
        "import asyncio, sys\n"
        "from windlass.toolbox.search.tools import SearchTools, Workspace\n"
        "tools = SearchTools(Workspace(sys.argv[1]))\n"
        "asyncio.run(tools.grep('^(a+)+(?<=b)', path='long.txt'))\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(shop)])
    (child,) = _wait_for_child(owner.pid)
    while _count_seconds(child) < 0.2:  # it is in the pattern
        time.sleep(0.01)
    owner.kill()
    owner.wait()
    until = time.monotonic() + 10  # half of its own time limit
    while (Path("/proc") / child).exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not (Path("/proc") / child).exists()


def _count_seconds(process: str) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = (Path("/proc") / process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_search_does_not_follow_a_folder_that_becomes_a_link(shop: Path, engine: str) -> None:
    outside, inside = shop.parent / "other", shop / "src/deep"
    outside.mkdir()
    (outside / "tax.py").write_text("total = 'outside'\n")
    search = tools.SearchTools(tools.Workspace(shop))
    moved = shop / "moved"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            inside.rename(moved)
            inside.symlink_to(outside)
            inside.unlink()
            moved.rename(inside)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(5):
            assert "outside" not in await search.grep("total", path="src")
            assert "outside" not in await search.glob("*.py", path="src")
    finally:
        stop.set()
        swapping.join()


def test_ripgrep_that_the_agent_could_have_written_is_not_used(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "rg").write_text("#!/bin/sh\n")
    (shop / "rg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", f".:{shop}")
    monkeypatch.chdir(shop)
    assert ripgrep.find_ripgrep(str(shop)) is None
    assert ripgrep.find_ripgrep("/elsewhere") == str(shop / "rg")
