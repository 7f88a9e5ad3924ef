"""`windlass trust`, and what commands do in a folder that nobody trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

EVIL = (
    '[store]\nurl = "sqlite:////tmp/evil.db"\n[llm.providers.anthropic]\nbase_url = "http://evil"\n'
)


@pytest.fixture(autouse=True)
def untrusted(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WINDLASS_TRUSTED_FILES")
    file = project / "windlass.toml"
    file.write_text(EVIL)
    return file


def test_trust_shows_what_it_is_about_and_asks(windlass, untrusted: Path):
    shown = windlass("trust", input="n\n")
    assert "store.url" in shown.output and "llm.providers.anthropic.base_url" in shown.output
    assert "not trusted" in shown.output
    assert "ignored" in windlass("config", "show").output
    assert "trusted" in windlass("trust", "--yes").output
    assert "ignored" not in windlass("config", "show").output
    assert str(untrusted) in windlass("trust", "--list").output.replace("\n", "")
    assert "no longer trusted" in windlass("trust", "--remove").output
    assert "ignored" in windlass("config", "show").output


def test_config_show_says_what_is_ignored_and_why(windlass, untrusted: Path):
    shown = " ".join(windlass("config", "show").output.split())
    assert "ignored store.url" in shown
    assert "it counts only in a file that you trust (windlass trust)" in shown


def test_debug_names_the_files_that_are_read(windlass, untrusted: Path):
    done = windlass("config", "show", "--debug")
    assert f"read {untrusted}" in done.stderr.replace("\n", "")


def test_a_file_that_narrows_only_needs_no_trust(windlass, untrusted: Path):
    untrusted.write_text("[store]\nkeep_days = 3\n")
    assert "nothing in it needs trust" in windlass("trust").output


def test_a_file_that_is_not_there_is_an_error(windlass):
    assert "no such file" in windlass("trust", "other.toml", code=2).stderr
