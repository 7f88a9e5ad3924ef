"""A folder of its own for every test, with nobody's settings in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from windlass.models.registry.scope import reload_config


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in os.environ:
        if name.startswith("WINDLASS_") or name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL")):
            monkeypatch.delenv(name)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("WINDLASS_TRUSTED_FILES", str(folder / "windlass.toml"))
    monkeypatch.chdir(folder)
    with reload_config():
        yield folder


@pytest.fixture
def toml(project: Path) -> Callable[..., Path]:
    """Provide `toml("…")`, which writes `windlass.toml` or another file of the project."""

    def write(text: str, name: str = "windlass.toml") -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return write
