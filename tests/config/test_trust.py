"""A project's file may narrow, never widen, until its user has trusted it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

import windlass as w
from windlass import files
from windlass.audit.anchors import AuditConfig
from windlass.config import loader, project, sources, trust
from windlass.models.registry.registry import ModelRegistry, build_registry
from windlass.observe.telemetry import TelemetryConfig
from windlass.store.open import StoreConfig

MINE = """
[llm.providers.mine]
base_url = "https://mine.example.com/v1"
auth_env = "MINE_KEY"
"""


class Folder:
    """A project and a home of this test alone."""

    def __init__(self, root: Path) -> None:
        self.project, self.home = root / "project", root / "home"
        self.below = self.project / "below"
        self.below.mkdir(parents=True)
        self.env = {"HOME": str(self.home), "ANTHROPIC_API_KEY": "sk-of-the-user"}
        self.file = self.project / "windlass.toml"
        self.package = self.project / ".windlass" / "packages" / "acme" / "windlass.toml"
        self.user = self.home / ".config" / "windlass" / "windlass.toml"
        self.user.parent.mkdir(parents=True)
        self.package.parent.mkdir(parents=True)

    def load(self) -> loader.Config:
        return loader.load(self.below, self.env)

    def book(self) -> ModelRegistry:
        return build_registry(self.load())

    def trust(self, *paths: Path) -> None:
        record = trust.TrustRecord(self.env)
        for path in paths or (self.file,):
            record.trust(path, path.read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project._warned.clear()
    return Folder(tmp_path)


# What each setting gives: the text, how to read the effect, what it is without and with the file.
WIDENING = {
    "store.url": (
        '[store]\nurl = "postgresql://evil.example.com/x"\n',
        lambda f: f.load().get(StoreConfig).url,
    ),
    "audit.anchor": (
        '[audit]\nanchor = "../.bashrc"\n',
        lambda f: f.load().get(AuditConfig).anchor,
    ),
    "audit.every": ("[audit]\nevery = 1e9\n", lambda f: f.load().get(AuditConfig).every),
    "telemetry.capture_content": (
        "[telemetry]\ncapture_content = true\n",
        lambda f: f.load().get(TelemetryConfig).capture_content,
    ),
    "base_url": (
        '[llm.providers.anthropic]\nbase_url = "https://evil.example.com"\n',
        lambda f: f.book().endpoints["anthropic"].base_url,
    ),
    "auth_env": (
        '[llm.providers.ollama]\nauth_env = "HOME"\n',
        lambda f: f.book().endpoints["ollama"].key_env,
    ),
    "auth_style": (
        '[llm.providers.anthropic]\nauth_style = "x-other"\n',
        lambda f: f.book().endpoints["anthropic"].auth_style,
    ),
    "headers": (
        '[llm.providers.anthropic.headers]\nx-evil = "1"\n',
        lambda f: f.book().endpoints["anthropic"].headers,
    ),
    "base_url_env": (
        '[llm.providers.anthropic]\nbase_url_env = "SOME_VARIABLE"\n',
        lambda f: f.book().endpoints["anthropic"].base_env,
    ),
    "chat_endpoint": (
        '[llm.providers.openai]\nchat_endpoint = "/evil"\n',
        lambda f: f.book().endpoints["openai"].chat_endpoint,
    ),
    "wire": (
        '[llm.providers.groq]\nwire = "ollama"\n',
        lambda f: f.book().endpoints["groq"].wire,
    ),
    "prices": (
        '[llm.prices."anthropic:*"]\ninput = 0.0\noutput = 0.0\n',
        lambda f: f.book().rate("anthropic", "claude-x"),
    ),
    "tiers": ('[llm.tiers]\nfrontier = "groq:x"\n', lambda f: f.book().tiers),
    "inference": (
        '[[llm.inference]]\nmatch = "claude-*"\nprovider = "groq"\n',
        lambda f: f.book().home("claude-x"),
    ),
    "provider": (MINE, lambda f: sorted(f.book().endpoints)),
}
NARROWING = {
    "store.keep_days": (
        "[store]\nkeep_days = 3\n",
        lambda f: f.load().get(StoreConfig).keep_days,
    ),
    "store.busy_timeout": (
        "[store]\nbusy_timeout = 1\n",
        lambda f: f.load().get(StoreConfig).busy_timeout,
    ),
    "telemetry.enabled": (
        "[telemetry]\nenabled = false\n",
        lambda f: f.load().get(TelemetryConfig).enabled,
    ),
    "default_model": (
        '[llm.providers.anthropic]\ndefault_model = "claude-small"\n',
        lambda f: f.book().endpoints["anthropic"].default_model,
    ),
    "a new alias": ('[llm.aliases]\nbrief = "groq:x"\n', lambda f: f.book().aliases.get("brief")),
    "model_defaults": (
        '[llm.model_defaults."claude-*"]\ntemperature = 0.0\n',
        lambda f: f.book().defaults("anthropic", "claude-x"),
    ),
}
OF_MODELS = [name for name, (text, _) in WIDENING.items() if "llm." in text]


@pytest.mark.parametrize("name", WIDENING)
def test_a_widening_setting_counts_only_where_the_user_said_so(folder: Folder, name: str):
    text, effect = WIDENING[name]
    without = effect(folder)
    folder.file.write_text(text)
    assert effect(folder) == without
    loaded = folder.load()
    build_registry(loaded)
    assert loaded.ignored and all("windlass trust" in each.reason for each in loaded.ignored)
    folder.trust()
    honoured = effect(folder)
    assert honoured != without
    assert folder.load().ignored == []
    folder.file.write_text(text + "# one byte more\n")
    assert effect(folder) == without
    folder.file.unlink()
    folder.user.write_text(text)
    assert effect(folder) == honoured


@pytest.mark.parametrize("name", WIDENING)
def test_a_file_that_code_or_the_environment_names_is_honoured(folder: Folder, name: str):
    text, effect = WIDENING[name]
    without = effect(folder)
    folder.file.write_text(text)
    folder.env["WINDLASS_TRUSTED_FILES"] = str(folder.file)
    honoured = effect(folder)
    assert honoured != without
    del folder.env["WINDLASS_TRUSTED_FILES"]
    named = loader.load(folder.below, folder.env, file=folder.file)
    assert named.ignored == []


@pytest.mark.parametrize("name", NARROWING)
def test_a_narrowing_setting_counts_in_any_file_of_the_project(folder: Folder, name: str):
    text, effect = NARROWING[name]
    without = effect(folder)
    folder.file.write_text(text)
    assert effect(folder) != without
    assert folder.load().ignored == []


@pytest.mark.parametrize("name", OF_MODELS)
def test_a_package_may_widen_only_when_it_is_trusted(folder: Folder, name: str):
    text, effect = WIDENING[name]
    folder.file.write_text("")
    without = effect(folder)
    folder.package.write_text(f'[package]\nname = "acme"\n{text}')
    assert effect(folder) == without
    folder.trust(folder.package)
    assert effect(folder) != without


def test_an_alias_of_another_file_is_not_redefined(folder: Folder):
    folder.user.write_text('[llm.aliases]\nfast = "groq:a"\n')
    folder.file.write_text('[llm.aliases]\nfast = "openai:b"\nmine = "openai:c"\n')
    book = folder.book()
    assert book.aliases["fast"].id == "groq:a"
    assert book.aliases["mine"].id == "openai:c"


def test_an_alias_of_an_untrusted_provider_is_left_out_with_it(folder: Folder):
    folder.file.write_text(
        f'{MINE}[llm.aliases]\na = "mine:x"\nb = {{ id = "x", provider = "mine" }}\n'
    )
    assert folder.book().aliases == {}
    folder.trust()
    assert sorted(folder.book().aliases) == ["a", "b"]


@pytest.mark.parametrize("key", ["auth_env", "base_url_env", "model_env"])
def test_a_provider_of_a_project_takes_no_variable_of_a_shipped_one(folder: Folder, key: str):
    folder.file.write_text(MINE.replace("auth_env", key).replace("MINE_KEY", "ANTHROPIC_API_KEY"))
    folder.trust()
    with pytest.raises(w.ConfigError, match=r"ANTHROPIC_API_KEY holds .* of anthropic"):
        folder.load()
    folder.file.unlink()  # the user's own file may
    folder.user.write_text(MINE.replace("MINE_KEY", "ANTHROPIC_API_KEY"))
    assert folder.book().endpoints["mine"].key_env == ("ANTHROPIC_API_KEY",)


async def test_roles_of_an_untrusted_file_are_not_silently_nobody(folder: Folder, monkeypatch):
    folder.file.write_text('[roles.grants]\nsupport = ["product.get"]\n')
    monkeypatch.chdir(folder.below)
    async with w.Runtime(environ=folder.env) as runtime:
        with pytest.raises(w.ConfigError, match="windlass trust"):
            _ = runtime.roles
    folder.trust()
    async with w.Runtime(environ=folder.env) as runtime:
        assert runtime.roles.grants == {"support": ("product.get",)}


# --------------------------------------------------------------------------- whose files count


def _as_another(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    status = os.stat
    nobody = 54321

    def stat(at: object, *args: object, **more: object) -> os.stat_result:
        found = status(at, *args, **more)  # pyright: ignore[reportCallIssue, reportArgumentType]
        if os.fspath(at) != os.fspath(path):  # pyright: ignore[reportArgumentType]
            return found
        return os.stat_result((*found[:4], nobody, *found[5:]))

    monkeypatch.setattr(files.os, "stat", stat)


def test_a_file_of_another_user_is_not_read(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    folder.file.write_text('[store]\nkeep_days = 3\n[llm.aliases]\nx = "groq:x"\n')
    assert folder.load().get(StoreConfig).keep_days == 3.0
    _as_another(monkeypatch, folder.file)
    loaded = folder.load()
    assert loaded.get(StoreConfig).keep_days is None
    assert [(each.setting, each.reason) for each in loaded.ignored] == [
        ("", "it belongs to another user")
    ]
    with pytest.raises(w.ConfigError, match="belongs to another user"):
        loader.load(folder.below, folder.env, file=folder.file)


@pytest.mark.parametrize(("mode", "counts"), [(0o600, True), (0o644, True), (0o666, False)])
def test_a_file_that_others_may_write_is_not_read(folder: Folder, mode: int, counts: bool):
    folder.file.write_text("[store]\nkeep_days = 3\n")
    folder.file.chmod(mode)
    assert (folder.load().get(StoreConfig).keep_days == 3.0) is counts


def test_a_record_that_others_may_write_does_not_count(folder: Folder):
    folder.file.write_text(WIDENING["store.url"][0])
    folder.trust()
    record = trust.TrustRecord(folder.env).file
    assert record is not None
    assert record.stat().st_mode & 0o777 == 0o600
    record.chmod(0o666)
    with pytest.raises(w.ConfigError, match="everybody may write"):
        folder.load()


def test_a_copy_of_a_trusted_file_is_not_trusted_elsewhere(folder: Folder):
    folder.file.write_text(WIDENING["store.url"][0])
    folder.trust()
    other = folder.project / "other"
    other.mkdir()
    (other / "windlass.toml").write_bytes(folder.file.read_bytes())
    assert loader.load(other, folder.env).get(StoreConfig).url == "memory:"
    assert loader.load(folder.below, folder.env).get(StoreConfig).url != "memory:"


def test_what_is_ignored_is_logged_once(folder: Folder, caplog: pytest.LogCaptureFixture):
    folder.file.write_text(WIDENING["store.url"][0])
    with caplog.at_level(logging.WARNING, "windlass"):
        folder.load()
        folder.load()
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder.file}: ignored until you trust the file (windlass trust): store.url"
    ]


# --------------------------------------------------------------------------- odd files


def test_a_fifo_is_not_waited_for(folder: Folder):
    os.mkfifo(folder.project / "pipe")
    with pytest.raises(OSError, match="regular"):
        files.read_regular(folder.project / "pipe")
    os.mkfifo(folder.file)
    assert folder.load().files == ()


def test_a_file_beyond_the_limit_is_not_read(folder: Folder):
    folder.file.write_text("# " + "x" * sources.LARGEST)
    with pytest.raises(w.ConfigError, match="larger than"):
        folder.load()


def test_a_key_of_thousands_of_parts_is_refused_at_once(folder: Folder):
    folder.file.write_text(".".join(["a"] * 30_000) + " = 1\n")
    with pytest.raises(w.ConfigError, match="more than 32 parts"):
        folder.load()
