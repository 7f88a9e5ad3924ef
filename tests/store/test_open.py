"""Addresses of stores."""

import asyncio
from pathlib import Path

import pytest

from windlass.errors import ConfigError
from windlass.store import open_store
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore


async def test_addresses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_store("memory:"), MemoryStore)
    for address, path in (
        ("sqlite:///rel.db", tmp_path / "rel.db"),
        ("sqlite:///deep/rel.db", tmp_path / "deep/rel.db"),
        (f"sqlite:///{tmp_path}/abs.db", tmp_path / "abs.db"),
        ("sqlite:///with%20blank.db", tmp_path / "with blank.db"),
        ("plain.db", tmp_path / "plain.db"),
        ("plain.sqlite", tmp_path / "plain.sqlite"),
        (tmp_path / "of a path", tmp_path / "of a path"),
    ):
        store = open_store(address)
        assert isinstance(store, SqliteStore)
        assert store.path == Path(path)
        await store.aclose()
    assert list(tmp_path.iterdir()) == []  # nothing is made before it is used


def test_a_store_passes_through():
    store = MemoryStore()
    assert open_store(store) is store


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresq://x/y", "did you mean 'postgresql'"),
        ("postgresql://x/y/z", "names no database"),
        ("postgresql://x:port/y", "cannot be read"),
        ("postgresql://x/y#z", "names no database"),
        ("sqlit:///x.db", "did you mean 'sqlite'"),
        ("memry:", "did you mean 'memory'"),
        ("nonsense", "is not an address"),
        ("", "is not an address"),
        ("sqlite:", "three slashes"),
        ("sqlite:/folder/x.db", "three slashes"),
        ("SQLite:x.db", "three slashes"),
        ("http://x.db", "is not an address"),
        ("sqlite:///", "three slashes"),
        ("sqlite://host/x.db", "three slashes"),
        ("sqlite:///folder/", "three slashes"),
        ("sqlite:///x.db?mode=ro", "three slashes"),
    ],
)
def test_addresses_that_are_none(address, words):
    with pytest.raises(ConfigError, match=words):
        open_store(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgres+psycopg://ann:s3cret@host/name",
        "pg://ann:s3cret@host/name",
        "postgresql://ann:s3cret@host:port/name",
        "postgresql://ann:s3/cret@host/name",
        "postgresql://ann:33/cret@host/name",
        "postgresql://ann:33/cret@host",
        "postgresql://ann:s3#s3cret@host/name",
        "postgresql://ann:[s3cret@host/name",
        "postgresql://ann:s3cret@host/a/b",
        "pg://host/name?password=s3cret",
    ],
)
def test_no_refusal_repeats_a_password(address):
    with pytest.raises(ConfigError) as refused:
        open_store(address)
    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_an_address_of_postgres_is_shown_without_its_password():
    store = open_store("postgres://ann:s3cret@db.example:6432/agents?sslmode=require&password=t0p")
    assert repr(store) == "<PostgresStore postgresql://ann@db.example:6432/agents>"
    assert (
        open_store("postgres://ann:s3cret@db.example:6432/agents?sslmode=require&password=t0p")
        is store
    )
    await store.aclose()
    await store.aclose()


async def test_one_file_is_one_store_until_all_have_closed_it(tmp_path):
    one, two = open_store(tmp_path / "s.db"), open_store(f"sqlite:///{tmp_path}/./s.db")
    assert one is two
    journal = await one.open("s")
    await one.aclose()
    await journal.close()
    await two.sessions()
    await two.aclose()
    again = open_store(tmp_path / "s.db")
    assert again is not one
    assert [info.id for info in await again.sessions()] == ["s"]
    await again.aclose()


def test_a_store_outlives_an_event_loop(tmp_path):
    store = open_store(tmp_path / "s.db")

    async def use(name):
        await (await store.open(name)).close()
        return [info.id for info in await store.sessions()]

    assert asyncio.run(use("a")) == ["a"]
    assert asyncio.run(use("b")) == ["b", "a"]
    asyncio.run(store.aclose())


def test_the_section_of_the_configuration(tmp_path):
    from windlass.config import loader
    from windlass.store.open import StoreConfig

    (tmp_path / "windlass.toml").write_text('[store]\nurl = "sqlite:///a.db"\nkeep_days = 30\n')
    loaded = loader.load(file=tmp_path / "windlass.toml", env={})
    assert loaded.get(StoreConfig) == StoreConfig(url="sqlite:///a.db", keep_days=30)
    (tmp_path / "windlass.toml").write_text('[store]\nurll = "x"\n')
    with pytest.raises(ConfigError, match="url"):
        loader.load(file=tmp_path / "windlass.toml", env={}).get(StoreConfig)
