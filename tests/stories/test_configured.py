"""A Runtime under a `windlass.toml`: where it keeps sessions, and what else it takes from the file."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as w
from windlass.config import sections
from windlass.runtime.runtime import Runtime
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import scripted


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a store of its own, seen from a folder below it."""
    (tmp_path / "windlass.toml").write_text(
        '[store]\nurl = "sqlite:///kept.db"\nbusy_timeout = 0.25\n'
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


async def test_a_relative_store_is_in_the_folder_of_the_file_that_names_it(project: Path):
    async with Runtime(
        environ={"WINDLASS_TRUSTED_FILES": str(project / "windlass.toml")}
    ) as runtime:
        await w.agent_loop("go", model=scripted("ok"), session_id="s1")
        assert isinstance(runtime.store, SqliteStore)
        assert runtime.store.path == project / "kept.db"
        assert [info.id for info in await runtime.store.sessions()] == ["s1"]


async def test_the_same_words_in_a_call_mean_the_current_folder(project: Path):
    async with Runtime(
        environ={"WINDLASS_TRUSTED_FILES": str(project / "windlass.toml")}
    ) as runtime:
        assert runtime.store is not runtime.store_at("sqlite:///kept.db")
        await w.agent_loop("go", model=scripted("ok"), store="sqlite:///kept.db")
        assert (project / "below" / "kept.db").exists()
        assert not (project / "kept.db").exists()


async def test_how_long_to_wait_for_another_process_is_taken_from_the_file(project: Path):
    async with Runtime(
        environ={"WINDLASS_TRUSTED_FILES": str(project / "windlass.toml")}
    ) as runtime:
        for store in (runtime.store, runtime.store_at("other.db")):
            assert isinstance(store, SqliteStore)
            assert store.busy_timeout == 0.25


async def test_a_file_with_a_store_does_not_disturb_a_run_that_names_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    begun = {
        name: sections.shape_path(shape) for name, shape in sections.registered_sections().items()
    }
    monkeypatch.setattr(sections, "_sections", begun)  # as in a process that has just begun
    async with Runtime(environ={"WINDLASS_TRUSTED_FILES": str(project / "windlass.toml")}):
        out = await w.agent_loop("go", model=scripted("ok"), store="memory:")
        assert out.status == "done"
    assert not (project / "kept.db").exists()
