"""Stories of workers with folders of their own: cwd, variables, git worktrees."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, scripted
from windlass.workers import worktree

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path | str, *arguments: str) -> str:
    """Run git and return what it prints."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def read(folder: str, name: str) -> str:
    """Read a file."""
    return Path(folder, name).read_text()


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a repository with a commit and an uncommitted change; worktrees go beside it.

    The working directory is empty, and stays so: what misses its worktree would land there.
    """
    (tmp_path / "trees").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "trees"))
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "a.txt").write_text("mine, uncommitted\n")
    yield folder
    assert list(elsewhere.iterdir()) == []


def config(repo: Path, *script: Any, **tree: Any) -> dict[str, Any]:
    """Build a worker that edits files in a worktree."""
    return {
        "task": "Change it.",
        "node": {
            "model_policy": {"model": scripted(*script, "done", "again")},
            "tools": ["file_write", "file_read"],
        },
        "execution": {"worktree": {"repo": str(repo), **tree}},
    }


WRITE = call("file_write", path="b.txt", content="two\n")


async def test_worktree_is_made_and_the_own_tree_is_untouched(repo: Path):
    worker = await w.spawn_agent(config(repo, WRITE, branch="worker/research-pass"))
    done = await w.wait_agent(worker)
    assert done.status == "completed", done.error
    assert done.execution["worktree"]["branch"] == "worker/research-pass"
    [patch] = [one for one in done.artifacts if one.kind == "patch"]
    told = patch.text or ""
    assert "+two" in told and "b.txt" in told and "mine" not in told
    assert (repo / "a.txt").read_text() == "mine, uncommitted\n"
    assert not (repo / "b.txt").exists()
    assert git(repo, "status", "--porcelain").strip() == "M a.txt"
    assert git(repo, "branch", "--show-current").strip() == "main"
    place = await worktree.find_worktree(str(repo), worker.id)
    assert place is not None
    assert read(place.path, "b.txt") == "two\n"


@pytest.mark.parametrize(
    ("cleanup", "script", "stays"),
    [
        ("preserve", (), True),
        ("remove", (), False),
        ("remove", (WRITE,), True),
        ("remove_if_clean", (), False),
        ("remove_if_clean", (WRITE,), True),
    ],
)
async def test_cleanup_follows_its_rule(repo: Path, cleanup: str, script: Any, stays: bool):
    worker = await w.spawn_agent(config(repo, *script, branch="b", cleanup=cleanup))
    await w.wait_agent(worker)
    place = await worktree.find_worktree(str(repo), worker.id)
    assert (place is not None) is stays
    assert len(git(repo, "worktree", "list").splitlines()) == (2 if stays else 1)
    assert "b" in git(repo, "branch", "--list", "b")


async def test_worktree_that_was_removed_is_made_again_for_the_next_task(repo: Path):
    worker = await w.spawn_agent(config(repo, branch="b", cleanup="remove"))
    await w.wait_agent(worker)
    assert await worktree.find_worktree(str(repo), worker.id) is None
    done = await w.wait_agent(await w.send_input(worker, "Again."))
    assert done.text == "again", done.error


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"repo": "/no/such"}, "no folder"),
        ({"repo": "/"}, "no git repository"),
        ({"branch": "a..b"}, "no name of a branch"),
        ({"branch": "-x"}, "no name of a branch"),
        ({"cleanup": "burn"}, "preserve"),
    ],
)
async def test_bad_worktree_is_refused_before_anything_runs(
    repo: Path, tree: dict[str, str], words: str
):
    asked = config(repo)
    asked["execution"]["worktree"] |= tree
    with pytest.raises(w.ConfigError, match=words):
        await w.spawn_agent(asked)
    assert await w.list_agents() == []


async def test_branch_that_is_checked_out_is_refused(repo: Path):
    done = await w.wait_agent(await w.spawn_agent(config(repo, branch="main")))
    assert done.status == "failed"
    assert "is checked out" in done.error["message"]
    assert git(repo, "status", "--porcelain").strip() == "M a.txt"


async def test_cwd_cannot_leave_the_worktree(repo: Path):
    asked = config(repo)
    asked["execution"]["cwd"] = "../.."
    done = await w.wait_agent(await w.spawn_agent(asked))
    assert done.status == "failed" and "leaves the worktree" in done.error["message"]
    asked["execution"]["cwd"] = "/"
    with pytest.raises(w.ConfigError, match="a folder in the worktree"):
        await w.spawn_agent(asked)


async def test_worker_has_the_tools_of_its_preset(tmp_path: Path):
    model = scripted("done")
    worker = await w.spawn_agent(
        {
            "task": "Look.",
            "node": {"model_policy": {"model": model}},
            "options": {"tool_preset": "readonly", "workspace": str(tmp_path)},
        }
    )
    assert (await w.wait_agent(worker)).status == "completed"
    assert "file_read" in {tool.name for tool in model.requests[0].tools}


async def test_folder_of_a_worker_is_on_record_as_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    asked: dict[str, Any] = {
        "task": "Look.",
        "node": {"model_policy": {"model": scripted("done")}},
        "execution": {"cwd": "here"},
    }
    worker = await w.spawn_agent(asked)
    assert worker.config["execution"] == {"cwd": str(tmp_path / "here")}
    assert (await w.wait_agent(worker)).status == "completed"
    with pytest.raises(w.ConfigError, match="workspace"):
        await w.spawn_agent({**asked, "options": {"workspace": str(tmp_path)}})


@pytest.mark.parametrize("sandbox", ["none", {"level": "none"}, w.Sandbox(level="none")])
async def test_folder_and_variables_reach_commands(tmp_path: Path, sandbox: Any):
    (tmp_path / "here").mkdir()
    (tmp_path / "beside").write_text("not held")
    model = scripted(call("bash", command="pwd; echo $MODE; cat ../beside"), "done")
    worker = await w.spawn_agent(
        {
            "task": "Look.",
            "node": {"model_policy": {"model": model}, "tools": ["bash"]},
            "execution": {"cwd": str(tmp_path / "here"), "env": {"MODE": "fast"}},
            "options": {"sandbox": sandbox},
        }
    )
    done = await w.wait_agent(worker)
    assert done.status == "completed", done.error
    told = str(done.transcript["messages"])
    assert "here" in told and "fast" in told and "not held" in told


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"execution": {"cwd": "/"}}, "not in the workspace of the parent"),
        ({"options": {"sandbox": "none"}}, "sandbox is the parent's"),
        ({"options": {"mounts": {"/": "extend"}}}, "mounts is the parent's"),
        ({"options": {"workspace": "/"}}, "workspace is the parent's"),
        ({"tools": ["bash"]}, None),
        ({}, None),
    ],
)
async def test_worker_cannot_reach_further_than_the_tools_of_its_parent(
    tmp_path: Path, asked: dict[str, Any], words: str | None
):
    (tmp_path / "home").mkdir()
    told: list[str] = []
    write = call("file_write", path=str(tmp_path / "outside.txt"), content="x")
    tries = (write, call("file_write", path="in.txt", content="x"), call("bash", command="id"))

    @w.tool
    async def delegate(ctx: w.ToolContext[None]) -> str:
        """Hand it on."""
        node = {"model_policy": {"model": scripted(*tries, "tried")}}
        try:
            worker = await w.spawn_agent({"task": "t", "node": node, **asked}, parent=ctx)
        except w.ConfigError as error:
            told.append(str(error))
            return "refused"
        done = await w.wait_agent(worker)
        told.append(str(done.transcript["messages"]))
        return done.status

    agent = w.Agent(
        scripted(call("delegate"), "ok"),
        tools=["file_write", delegate],
        workspace=tmp_path / "home",
    )
    out = await agent.run("go", session_id="s")
    assert out.status == "done"
    assert not (tmp_path / "outside.txt").exists()
    if words is not None:
        assert words in told[0]
        return
    assert out.tool_calls[0].result == "completed"
    assert (tmp_path / "home" / "in.txt").exists() is ("tools" not in asked)
    assert "uid=" not in told[0]


async def test_twenty_worktrees_of_one_repository_are_made_at_once(repo: Path):
    places = await asyncio.gather(
        *[worktree.prepare_worktree(str(repo), f"b{n}", f"worker_{n}") for n in range(20)]
    )
    assert len({place.path for place in places}) == 20
    assert all([read(place.path, "a.txt") == "one\n" for place in places])
    again = await worktree.prepare_worktree(str(repo), "b3", "worker_3")
    assert again == places[3]
    assert git(repo, "status", "--porcelain").strip() == "M a.txt"


async def test_half_made_worktree_is_made_again(repo: Path):
    place = await worktree.prepare_worktree(str(repo), "b", "worker_1")
    folder = Path(place.path)
    mark = folder.with_name(f"{folder.name}.json")
    own = Path(git(folder, "rev-parse", "--absolute-git-dir").strip())
    # killed while git made it: locked, without its files
    mark.unlink()
    (own / "locked").write_text("initializing\n")
    (folder / "a.txt").unlink()
    assert await worktree.prepare_worktree(str(repo), "b", "worker_1") == place
    assert (folder / "a.txt").read_text() == "one\n"
    # killed after git was done: what is in it stays
    mark.unlink()
    (folder / "work.txt").write_text("kept")
    assert await worktree.prepare_worktree(str(repo), "b", "worker_1") == place
    assert (folder / "work.txt").read_text() == "kept"
    # its folder was deleted by hand
    shutil.rmtree(folder)
    assert await worktree.find_worktree(str(repo), "worker_1") is None
    assert await worktree.prepare_worktree(str(repo), "b", "worker_1") == place


async def test_git_waits_for_the_lock_of_another_git(repo: Path):
    locks = repo / ".git" / "refs" / "heads"
    lock = locks / "b.lock"
    lock.write_text("")
    making = asyncio.create_task(worktree.prepare_worktree(str(repo), "b", "worker_1"))
    await asyncio.sleep(0.1)
    lock.unlink()
    assert read((await making).path, "a.txt") == "one\n"
