"""Files that a setting names are written only where this user keeps them: no links, no other's files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

import windlass as w
from windlass.audit.anchors import FileAnchor
from windlass.cli.main import cli
from windlass.errors import ConfigError
from windlass.files import check_private, open_private, write_private
from windlass.models.doctor.row import write
from windlass.store.seals import follow, genesis
from windlass.testing import scripted


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with every trick in it, and the file that is to stay as it is."""
    victim = tmp_path / "home" / "victim"
    victim.parent.mkdir()
    victim.write_text("mine")
    place = tmp_path / "project"
    place.mkdir()
    (place / "link").symlink_to(victim)
    (place / "dangling").symlink_to(tmp_path / "home" / "new")
    (place / "linked").symlink_to(tmp_path / "home")
    os.link(victim, place / "hard")
    os.mkfifo(place / "pipe")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(place)
    return place


TRICKS = ["link", "dangling", "linked/victim", "linked/new", "linked/deep/new", "hard", "pipe"]


def untouched(folder: Path) -> bool:
    home = folder.parent / "home"
    return [f.name for f in home.iterdir()] == ["victim"] and (
        home / "victim"
    ).read_text() == "mine"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def seal():
    return follow("acme", 1, genesis("acme"), 1.0, [])


@pytest.mark.parametrize("name", TRICKS)
@pytest.mark.parametrize("append", [True, False])
def test_nothing_is_written_through_a_trick(folder, name, append):
    with pytest.raises(OSError):
        open_private(folder / name, append=append, make_folders=True)
    with pytest.raises(OSError):
        open_private(name, append=append, make_folders=True)
    assert untouched(folder)


def test_a_file_of_ones_own_is_written_for_oneself_alone(folder):
    for name in ("new", "deep/er/new"):
        os.close(open_private(folder / name, make_folders=True))
        assert mode(folder / name) == 0o600
    (folder / "open").write_text("before")
    (folder / "open").chmod(0o644)
    handle = open_private(folder / "open", append=True)
    os.write(handle, b" after")
    os.close(handle)
    assert (folder / "open").read_text() == "before after" and mode(folder / "open") == 0o600
    os.close(open_private(folder / "linked" / ".." / "kept"))
    assert (folder / "kept").exists() and untouched(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_is_not_written(folder):
    (folder / "theirs").write_text("theirs")
    os.chown(folder / "theirs", 12345, 12345)
    with pytest.raises(OSError, match="another user"):
        open_private(folder / "theirs", append=True)
    assert (folder / "theirs").read_text() == "theirs"


@pytest.mark.parametrize("name", TRICKS)
def test_the_anchor_follows_no_trick(folder, name):
    with pytest.raises(OSError):
        FileAnchor(folder / name).put(seal())
    assert untouched(folder)


def test_the_anchor_is_a_file_of_seals(folder):
    for text in ("alias ll='ls -l'\n", "\nalias", '{\n  "tenant": 1\n}\n'):
        (folder / ".bashrc").write_text(text)
        with pytest.raises(OSError, match="does not begin with a seal"):
            FileAnchor(folder / ".bashrc").put(seal())
        assert (folder / ".bashrc").read_text() == text
    for before in (b"", b'{"ten', b'{"tenant":"acme","numb'):  # empty, or cut off
        (folder / "seals").write_bytes(before)
        anchor = FileAnchor(folder / "seals")
        anchor.put(seal())
        anchor.put(seal())
        assert anchor.get().seals == (seal(), seal())


async def test_the_transcript_folder_follows_no_trick(folder):
    for name in ("linked", "linked/deep"):
        with pytest.raises(ConfigError, match="symbolic link"):
            await w.Agent(scripted("ok")).run("hi", llm_transcript_dir=name)
    (folder / "there").mkdir()
    (folder / "there" / "llm_transcript.jsonl").symlink_to(folder.parent / "home" / "victim")
    with pytest.raises(ConfigError, match="symbolic link"):
        await w.Agent(scripted("ok")).run("hi", llm_transcript_dir="there")
    assert untouched(folder)
    await w.Agent(scripted("ok")).run("hi", llm_transcript_dir="own/notes")
    assert mode(folder / "own" / "notes" / "llm_transcript.jsonl") == 0o600


def test_exports_and_pages(folder):
    def call(*args: str):
        return CliRunner().invoke(cli, args)

    assert call("run", "hello", "--provider", "mock", "--session", "s").exit_code == 0
    for command in (["sessions", "export", "s", "-o"], ["trace", "s", "--html"]):
        for name in ("link", "dangling", "hard", "pipe"):
            assert call(*command, name).exit_code != 0, (command, name)
        assert untouched(folder)
        (folder.parent / "shelf").mkdir(exist_ok=True)
        (folder / "chosen").unlink(missing_ok=True)
        (folder / "chosen").symlink_to(folder.parent / "shelf")  # a folder that the user names
        done = call(*command, "chosen/out")
        assert done.exit_code == 0, done.output
        assert mode(folder.parent / "shelf" / "out") == 0o600


ROW = {"native_tools": True}


@pytest.mark.parametrize("name", TRICKS)
async def test_a_cache_a_row_and_a_replaced_file_follow_no_trick(folder, name):
    with pytest.raises(OSError):
        check_private(name)
    with pytest.raises(OSError):
        write_private(name, b"x")
    with pytest.raises(ConfigError):
        write(folder / name, "openai", "gpt-4o", ROW)
    layer = w.with_cache(f"sqlite:///{name}")
    out = await w.Agent(scripted("ok"), llm_caller=w.compose([layer])(w.default_llm_caller())).run(
        "hi"
    )
    assert out.status == "failed" and "with_cache" in str(out.error)
    assert untouched(folder)


async def test_a_cache_and_a_row_of_ones_own_are_written(folder):
    for _ in range(2):
        layer = w.with_cache("own/cache.db")
        caller = w.compose([layer])(w.default_llm_caller())
        assert (await w.Agent(scripted("ok"), llm_caller=caller).run("hi")).status == "done"
    assert layer.hits == 1 and mode(folder / "own" / "cache.db") == 0o600
    (folder / "own" / "cache.db").chmod(0o644)
    layer = w.with_cache("own/cache.db")
    caller = w.compose([layer])(w.default_llm_caller())
    assert (await w.Agent(scripted("ok"), llm_caller=caller).run("hi")).status == "done"
    assert layer.hits == 1 and mode(folder / "own" / "cache.db") == 0o600
    assert write(folder / "windlass.toml", "openai", "gpt-4o", ROW) == "added"
    assert mode(folder / "windlass.toml") == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_a_cache_and_a_row_of_another_are_not_written(folder):
    for name in ("cache.db", "windlass.toml"):
        (folder / name).touch()
        os.chown(folder / name, 12345, 12345)
    caller = w.compose([w.with_cache("cache.db")])(w.default_llm_caller())
    out = await w.Agent(scripted("ok"), llm_caller=caller).run("hi")
    assert out.status == "failed" and "another user" in str(out.error)
    with pytest.raises(ConfigError, match="another user"):
        write(folder / "windlass.toml", "openai", "gpt-4o", ROW)
    assert [(folder / n).stat().st_size for n in ("cache.db", "windlass.toml")] == [0, 0]


@pytest.mark.parametrize("target", ["victim", "new", "."])
def test_the_default_place_is_made_through_no_link(folder, target):
    (folder / ".windlass").symlink_to(folder.parent / "home" / target)
    done = CliRunner().invoke(cli, ["run", "hello", "--provider", "mock", "--session", "s"])
    assert done.exit_code != 0 and untouched(folder)
    (folder / ".windlass").unlink()
    done = CliRunner().invoke(cli, ["run", "hello", "--provider", "mock", "--session", "s"])
    assert done.exit_code == 0 and (folder / ".windlass" / ".gitignore").read_text() == "*\n"
    assert mode(folder / ".windlass" / ".gitignore") == 0o600
