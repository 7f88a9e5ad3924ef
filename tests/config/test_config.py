"""`windlass.toml`: where values come from, and what a mistake is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from windlass.config import loader, sections, sources
from windlass.errors import ConfigError
from windlass.redaction.redactor import Secret


class Retry(msgspec.Struct, frozen=True):
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 3
    wait: float = 0.5


class Server(msgspec.Struct, frozen=True):
    command: str
    timeout: float = 10.0


class Store(msgspec.Struct, frozen=True):
    path: str | None = None
    busy_timeout: float = 5.0
    sync: Literal["full", "normal"] = "full"
    wal: bool = True
    retry: Retry = Retry()
    tags: tuple[str, ...] = ()
    folder: Path | None = None


class Models(msgspec.Struct, frozen=True):
    default: str = "mock:mock"
    api_key: Secret | None = None
    token: str | None = None
    aliases: dict[str, str] = {}
    servers: dict[str, Server] = {}
    window: int | str = 10


SECTIONS = {"store": Store, "models": Models}


class World:
    """A project folder, a home folder and an environment, of this test alone."""

    def __init__(self, root: Path) -> None:
        self.project, self.home = root / "project", root / "home"
        self.deep = self.project / "a" / "b"
        self.deep.mkdir(parents=True)
        (self.home / ".config" / "windlass").mkdir(parents=True)
        self.env = {"HOME": str(self.home)}
        self.file = self.project / "windlass.toml"
        self.user_file = self.home / ".config" / "windlass" / "windlass.toml"

    def load(self, **kwargs) -> loader.Config:
        return loader.load(self.deep, self.env, sections=SECTIONS, **kwargs)

    def problems(self) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load()
        return [line.replace(f"{self.project}/", "") for line in str(caught.value).splitlines()]

    def origins(self) -> dict[str, str]:
        return {f"{s.section}.{s.key}": s.origin for s in self.load().explain()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# --------------------------------------------------------------------------- where values come from


def test_without_any_file_everything_is_built_in(world: World):
    assert world.load().get(Store) == Store()
    assert world.load().files == ()
    assert set(world.origins().values()) == {"built-in"}


def test_environment_over_project_over_user_over_built_in(world: World):
    world.env |= {"WINDLASS_STORE_SYNC": "normal"}
    world.user_file.write_text('[store]\npath = "user"\nbusy_timeout = 2\nsync = "full"\n')
    world.file.write_text('# mine\n[store]\npath = "project"\nsync = "full"\n')
    store = world.load().get(Store)
    assert (store.path, store.busy_timeout, store.sync, store.wal) == (
        "project",
        2.0,
        "normal",
        True,
    )
    origins = world.origins()
    assert origins["store.path"] == f"{world.file}:3"
    assert origins["store.busy_timeout"] == f"{world.user_file}:3"
    assert origins["store.sync"] == "environment WINDLASS_STORE_SYNC"
    assert origins["store.wal"] == "built-in"
    assert world.load().files == (world.file, world.user_file)


def test_tables_are_merged_and_arrays_replaced(world: World):
    world.user_file.write_text(
        '[models.aliases]\nfast = "u1"\nslow = "u2"\n[store]\ntags = ["u"]\nretry = { wait = 9 }\n'
    )
    world.file.write_text(
        '[models.aliases]\nfast = "p1"\n[store]\ntags = ["p"]\nretry.attempts = 7\n'
    )
    loaded = world.load()
    assert loaded.get(Models).aliases == {"fast": "p1", "slow": "u2"}
    assert loaded.get(Store).tags == ("p",)
    assert loaded.get(Store).retry == Retry(attempts=7, wait=9.0)
    origins = world.origins()
    assert origins["models.aliases.fast"] == f"{world.file}:2"
    assert origins["models.aliases.slow"] == f"{world.user_file}:3"
    assert origins["store.retry.attempts"] == f"{world.file}:5"
    assert origins["store.retry.wait"] == f"{world.user_file}:6"


def test_the_nearest_file_upward_wins(world: World):
    world.file.write_text('[store]\npath = "far"\n')
    nearer = world.project / "a" / "windlass.toml"
    nearer.write_text("[store]\nwal = false\n")
    assert world.load().get(Store) == Store(wal=False)
    assert loader.find(world.deep) == nearer


def test_a_named_file_takes_the_projects_place(world: World):
    world.file.write_text('[store]\npath = "project"\n')
    other = world.project / "other.toml"
    other.write_text('[store]\npath = "other"\n')
    assert world.load(file=other).get(Store).path == "other"
    with pytest.raises(ConfigError, match=r"missing\.toml: there is no such file"):
        world.load(file=world.project / "missing.toml")


def test_the_users_file_follows_xdg(world: World):
    elsewhere = world.home / "xdg" / "windlass" / "windlass.toml"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text('[store]\npath = "xdg"\n')
    world.user_file.write_text('[store]\npath = "home"\n')
    assert world.load().get(Store).path == "home"
    world.env["XDG_CONFIG_HOME"] = "relative/is/ignored"
    assert world.load().get(Store).path == "home"
    world.env["XDG_CONFIG_HOME"] = str(world.home / "xdg")
    assert world.load().get(Store).path == "xdg"
    assert loader.user_file({}) is None


def test_the_users_file_is_not_read_twice(world: World):
    world.user_file.write_text('[store]\npath = "user"\n')
    loaded = loader.load(world.user_file.parent, world.env, sections=SECTIONS)
    assert loaded.files == (world.user_file,)


def test_a_relative_path_belongs_to_the_folder_of_its_file(world: World):
    world.file.write_text('[store]\npath = "x.db"\n')
    world.user_file.write_text('[store]\nfolder = "f"\n')
    loaded = world.load()
    assert loaded.folder(Store, "path") == world.project
    assert loaded.folder(Store, "folder") == world.user_file.parent
    assert loaded.folder(Store, "wal") == world.deep
    assert loaded.get(Store).folder == Path("f")


@pytest.mark.parametrize(
    "variable, text, read",
    [
        ("WINDLASS_STORE_PATH", "5", lambda s, m: s.path == "5"),
        ("WINDLASS_STORE_WAL", "false", lambda s, m: s.wal is False),
        ("WINDLASS_STORE_BUSY_TIMEOUT", "2.5", lambda s, m: s.busy_timeout == 2.5),
        ("WINDLASS_STORE_TAGS", '["a", "b"]', lambda s, m: s.tags == ("a", "b")),
        ("WINDLASS_STORE_RETRY", '{"attempts": 9}', lambda s, m: s.retry.attempts == 9),
        ("WINDLASS_MODELS_API_KEY", "sk-1234567", lambda s, m: m.api_key == Secret("sk-1234567")),
        ("WINDLASS_MODELS_ALIASES", '{"a": "b"}', lambda s, m: m.aliases == {"a": "b"}),
    ],
)
def test_variables_become_typed_values(world: World, variable: str, text: str, read):
    world.env[variable] = text
    loaded = world.load()
    assert read(loaded.get(Store), loaded.get(Models))


def test_nothing_is_read_before_load(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(world.deep)
    monkeypatch.setenv("HOME", str(world.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    world.file.write_text('[store]\npath = "from here"\n')
    assert loader.load(sections=SECTIONS).get(Store).path == "from here"


# --------------------------------------------------------------------------- secrets


def test_secrets_are_masked_and_handed_to_the_redactor(world: World):
    world.file.write_text(
        '[models]\napi_key = "sk-1234567"\ntoken = "tok-1234567"\n'
        '[store]\npath = "postgresql://ann:hunter2@db/shop"\n'
    )
    loaded = world.load()
    shown = {f"{s.section}.{s.key}": s.value for s in loaded.explain()}
    assert shown["models.api_key"] == "****"
    assert shown["models.token"] == "****"
    assert shown["store.path"] == "postgresql://ann:****@db/shop"
    assert {secret.reveal() for secret in loaded.secrets()} == {
        "sk-1234567",
        "tok-1234567",
        "hunter2",
    }
    assert loaded.get(Models).api_key == Secret("sk-1234567")


def test_a_secret_that_is_not_set_shows_as_such(world: World):
    shown = {f"{s.section}.{s.key}": s.value for s in world.load().explain()}
    assert shown["models.api_key"] is None
    assert world.load().secrets() == ()


def test_a_mistake_with_a_secret_does_not_show_it(world: World):
    world.file.write_text("[models]\napi_key = 123456789\ntoken = 987654321\n")
    world.env["WINDLASS_STORE_PATH"] = "x"
    assert world.problems() == [
        "windlass.toml:2: models.api_key: expected a string, got an integer: put it in quotes",
        "windlass.toml:3: models.token: expected a string, got an integer: put it in quotes",
    ]


# --------------------------------------------------------------------------- mistakes


def test_all_mistakes_are_told_at_once_with_their_lines(world: World):
    world.file.write_text(
        """\
[stroe]
path = "x"

[store]
busy_timout = 5
sync = "fll"
wal = "yes"
retry = { attempts = 0, wiat = 1 }
tags = ["a", 2]

[models]
default = 3

[models.servers.files]
comand = "ls"
[models.servers.web]
timeout = "long"
command = "serve"
"""
    )
    assert world.problems() == [
        "windlass.toml:1: [stroe] is no section; did you mean 'store'? (known: models, store)",
        "windlass.toml:5: store.busy_timout is no setting; did you mean 'busy_timeout'? "
        "(known: busy_timeout, folder, path, retry, sync, tags, wal)",
        "windlass.toml:6: store.sync: expected 'full' or 'normal' ('fll')",
        "windlass.toml:7: store.wal: expected true or false, got a string ('yes')",
        "windlass.toml:8: store.retry.attempts: expected an integer >= 1 (0)",
        "windlass.toml:8: store.retry.wiat is no setting; did you mean 'wait'? "
        "(known: attempts, wait)",
        "windlass.toml:9: store.tags.1: expected a string, got an integer (2): put it in quotes",
        "windlass.toml:12: models.default: expected a string, got an integer (3): put it in quotes",
        "windlass.toml:15: models.servers.files.comand is no setting; did you mean 'command'? "
        "(known: command, timeout)",
        "windlass.toml:17: models.servers.web.timeout: expected a number, got a string ('long')",
    ]


def test_mistakes_in_both_files_and_the_environment_come_together(world: World):
    world.file.write_text("[store]\nwal = 1\n")
    world.user_file.write_text("[store]\nwal = 2\n")
    world.env["WINDLASS_STORE_WAL"] = "perhaps"
    third, second, first = world.problems()
    assert first == "windlass.toml:2: store.wal: expected true or false, got an integer (1)"
    assert second == f"{world.user_file}:2: store.wal: expected true or false, got an integer (2)"
    assert (
        third == "environment WINDLASS_STORE_WAL: expected true or false, got a string ('perhaps')"
    )


def test_a_variable_that_is_nearly_right_is_a_mistake_and_a_strange_one_is_not(world: World):
    world.env |= {"WINDLASS_STORE_PAHT": "x", "WINDLASS_WIRE_DIR": "y", "WINDLASS_MODELS_ZZZ": "z"}
    assert world.problems() == [
        "environment WINDLASS_STORE_PAHT is no setting; did you mean 'WINDLASS_STORE_PATH'?"
    ]


def test_a_missing_key_of_a_named_table_is_told(world: World):
    world.file.write_text("[models.servers.files]\ntimeout = 1.0\n")
    assert world.problems() == [
        "windlass.toml:1: models.servers.files: object missing required field command"
    ]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[store]\npath = \n", ":2: it is not TOML: Invalid value"),
        ('[store]\npath = "a"\npath = "b"\n', ":3: it is not TOML: Cannot overwrite a value"),
        ("[store", ":1: it is not TOML: Expected ']' at the end of a table declaration"),
        ("store = 5\n", ":1: store: expected the table [store], got int"),
        ("wal = true\n", ":1: wal is no section; it is a key of [store] (known: models, store)"),
        ("[[store]]\nwal = true\n", ":1: store: expected the table [store], got list"),
    ],
)
def test_files_that_are_not_what_they_should_be(world: World, text: str, problem: str):
    world.file.write_text(text)
    (told,) = world.problems()
    told = told.replace(" (at end of document)", "")
    assert told.startswith("windlass.toml")
    assert told.removeprefix("windlass.toml").removeprefix(":1") == problem.removeprefix(":1")


def test_bytes_that_are_no_text_and_nesting_without_end(world: World):
    world.file.write_bytes(b"[store]\npath = '\xff'\n")
    assert world.problems() == ["windlass.toml: it is not UTF-8 text (byte 16)"]
    world.file.write_text("x = " + "[" * 100_000)
    assert world.problems() == ["windlass.toml: it is nested too deep"]


def test_a_file_saved_with_a_byte_order_mark_is_fine(world: World):
    world.file.write_text('[store]\npath = "x"\n', "utf-8-sig")
    assert world.load().get(Store).path == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_an_unreadable_file_is_a_config_error(world: World, monkeypatch: pytest.MonkeyPatch):
    world.file.write_text("[store]\n")

    def refuse(*args: object, **kwargs: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sources, "read_regular", refuse)
    assert world.problems() == ["windlass.toml: it cannot be read: Permission denied"]


def test_sources_that_are_right_alone_and_wrong_together(world: World):
    class Span(msgspec.Struct, frozen=True):
        low: int = 0
        high: int = 10

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low must not be above high")

    world.user_file.write_text("[span]\nhigh = 3\n")
    world.file.write_text("[span]\nlow = 5\n")
    with pytest.raises(ConfigError, match=r"^\[span\]: low must not be above high$"):
        loader.load(world.deep, world.env, sections={"span": Span})


# --------------------------------------------------------------------------- lines


def test_lines_of_keys_in_every_way_toml_writes_them(world: World):
    world.file.write_text(
        '''\
store.busy_timeout = "a"
"models"."default" = """
[store.retry]
attempts = [
"""

[ models . aliases ]
one = 1
'two three' = 2

[store.retry]   # a comment
"attempts" = 'x'
'''
    )
    assert [problem.split(": ")[:2] for problem in world.problems()] == [
        ["windlass.toml:1", "store.busy_timeout"],
        ["windlass.toml:8", "models.aliases.one"],
        ["windlass.toml:9", "models.aliases.two three"],
        ["windlass.toml:12", "store.retry.attempts"],
    ]


# --------------------------------------------------------------------------- sections


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_sections", {})


@pytest.mark.usefixtures("registry")
def test_owners_register_their_sections(world: World):
    sections.register("store", Store)
    sections.register("store", Store)  # importing a module twice is no mistake
    world.file.write_text('[store]\npath = "x"\n')
    assert loader.load(world.deep, world.env).get(Store).path == "x"
    assert loader.check(world.file) == []
    world.file.write_text("[store]\nwal = 1\n[models]\n")
    assert loader.check(world.file) == [
        f"{world.file}:2: store.wal: expected true or false, got an integer (1)",
        f"{world.file}:3: [models] is no section (known: store)",
    ]
    assert loader.check(world.deep / "no.toml") == [f"{world.deep}/no.toml: there is no such file"]


@pytest.mark.usefixtures("registry")
def test_a_section_has_one_owner_and_defaults_for_everything():
    sections.register("store", Store)
    with pytest.raises(ConfigError, match="section 'store' belongs to .*:Store, not .*:Models"):
        sections.register("store", Models)
    with pytest.raises(ConfigError, match=r"Server\.command needs a default"):
        sections.register("server", Server)


@pytest.mark.usefixtures("registry")
def test_a_section_can_be_named_before_its_owner_is_imported(world: World):
    name = f"{Late.__module__}:Late"
    sys.modules[Late.__module__] = sys.modules[__name__]
    sections.register("late", name)
    sections.register("late", Late)  # the owner itself, when it is imported
    sections.register("late", name)
    world.file.write_text("[late]\nsize = 4\n")
    assert loader.load(world.deep, world.env).get(Late).size == 4


class Late(msgspec.Struct, frozen=True):
    size: int = 1


@pytest.mark.usefixtures("registry")
def test_a_section_registered_after_loading_has_its_defaults(world: World):
    loaded = loader.load(world.deep, world.env)
    sections.register("late", Late)
    assert loaded.get(Late) == Late()
    with pytest.raises(ConfigError, match=r"Server is no section of windlass\.toml"):
        loaded.get(Server)
