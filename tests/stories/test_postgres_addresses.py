"""A Postgres server elsewhere is spoken to over TLS only, and no wait for a lock is endless."""

from __future__ import annotations

import pytest

from windlass.errors import ConfigError, Locked
from windlass.store.postgres import PostgresStore
from windlass.store.postgres_link import Address, connect
from windlass.store.postgres_schema import LOCK
from windlass.testing.postgres import own_server


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    for name in ("PGHOST", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("host", ["db.example.org", "10.0.0.7", "[2001:db8::1]"])
def test_a_server_elsewhere_needs_tls(host, monkeypatch):
    assert "sslmode=require" in Address(f"postgresql://ann:pw@{host}/agents").url
    assert "sslmode=verify-full" in Address(f"postgresql://{host}/agents?sslmode=verify-full").url
    for mode in ("disable", "allow", "prefer"):
        with pytest.raises(ConfigError, match="clear text") as caught:
            Address(f"postgresql://ann:pw@{host}/agents?sslmode={mode}")
        assert "pw" not in str(caught.value)
        monkeypatch.setenv("PGSSLMODE", mode)
        with pytest.raises(ConfigError, match="clear text"):
            Address(f"postgresql://ann:pw@{host}/agents")
        monkeypatch.delenv("PGSSLMODE")


def test_hosts_of_the_options_and_the_environment_count(monkeypatch):
    assert "sslmode=require" in Address("postgresql:///agents?host=db.example.org").url
    assert "sslmode=require" in Address("postgresql:///agents?host=localhost,db.example.org").url
    monkeypatch.setenv("PGHOST", "db.example.org")
    assert "sslmode=require" in Address("postgresql:///agents").url


@pytest.mark.parametrize(
    "rest", ["localhost/a", "127.0.0.1:5433/a", "[::1]/a", "/a?host=/run/pg", "/a"]
)
def test_this_machine_may_do_without(rest):
    assert "sslmode" not in Address(f"postgresql://{rest}").url
    assert (
        "sslmode=disable"
        in Address(f"postgresql://{rest}{'&' if '?' in rest else '?'}sslmode=disable").url
    )


async def test_the_wait_for_a_lock_ends():
    with own_server(durable=False) as server:
        url = server.url()
        holder = await connect(Address(url), 30.0, {})
        await holder.execute("SELECT pg_advisory_lock($1)", LOCK)
        store = PostgresStore(url, busy_timeout=0.2)
        with pytest.raises(Locked, match="another connection holds"):
            await store.sessions()
        await store.aclose()
        await holder.close()
        store = PostgresStore(url, busy_timeout=5.0)
        assert await store.sessions() == []
        await store.aclose()
