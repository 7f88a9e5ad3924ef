"""A store with several hosts uses the one that takes writes, and waits for one that is promoted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket

import pytest

from tests.postgres_pair import open_pair
from tests.stories.test_postgres_login import CLEAR, PASSWORD, fake_server
from windlass.errors import ConfigError, Locked, WindlassError
from windlass.store.postgres import connection
from windlass.store.postgres.address import Address
from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import MISSING, find_binaries, own_server
from windlass.testing.store_pieces import add, effects, insert, make_table, note, numbers, result

needs_postgres = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


def test_of_several_hosts_the_one_that_takes_writes_is_wanted(monkeypatch):
    monkeypatch.delenv("PGTARGETSESSIONATTRS", raising=False)
    assert Address("postgresql://localhost/a").session_attrs == "any"
    assert Address("postgresql:///a").session_attrs == "any"  # where a server is by default
    hosts = "postgresql://localhost:1,localhost:2/a"
    assert Address(hosts).session_attrs == "read-write"
    assert Address(f"{hosts}?target_session_attrs=any").session_attrs == "any"
    with pytest.raises(ConfigError, match="did you mean 'read-write'"):
        Address(f"{hosts}?target_session_attrs=readwrite")
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "primary")
    assert Address(hosts).session_attrs == "primary"


def test_each_host_is_reached_under_the_same_rules():
    address = Address("postgresql://ann:pw@localhost:1,db.example.org:2/a?sslmode=verify-full")
    hosts = address.list_host_arguments()
    assert [(one["host"], one["port"]) for one in hosts] == [
        (["localhost"], 1),
        (["db.example.org"], 2),
    ]
    for one in hosts:
        assert one["ssl"].check_hostname
        assert one["dsn"] == "postgresql://?"
    with pytest.raises(ConfigError, match="sslmode=prefer"):
        Address("postgresql://localhost,db.example.org/a?sslmode=prefer")


def test_queue_connects_to_the_same_hosts_as_the_store():
    login = pytest.importorskip("windlass.fleet.procrastinate_login")
    address = Address("postgresql://ann@localhost:1,localhost:2/a?passfile=/p")
    given = login.connect_arguments(address, "agents", 30.0)
    assert (given["host"], given["port"]) == ("localhost,localhost", "1,2")
    assert (given["target_session_attrs"], given["passfile"]) == ("read-write", "/p")


@contextlib.asynccontextmanager
async def open_store(url, **options):
    """Open a store, and close it."""
    store = PostgresStore(url, **options)
    try:
        yield store
    finally:
        await store.aclose()


@contextlib.contextmanager
def silent_host():
    """A host that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def tcp_server():
    """A server, and its host."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    with own_server(durable=False, settings=settings):
        yield f"127.0.0.1:{port}"


@needs_postgres
async def test_host_that_does_not_answer_leaves_time_for_the_next_one(tcp_server, monkeypatch):
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 2.0)
    with silent_host() as silent:
        async with open_store(f"postgresql://windlass@{silent},{tcp_server}/postgres") as store:
            assert await store.sessions() == []


@needs_postgres
async def test_no_host_gets_the_password_in_clear_text(tcp_server):
    """Neither the first one nor one behind it."""
    async with fake_server(CLEAR) as fake:
        asks = f"127.0.0.1:{fake.port}"
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            gone = f"127.0.0.1:{free.getsockname()[1]}"
            for hosts in (f"{asks},{gone}", f"{gone},{asks}"):
                url = f"postgresql://windlass:{PASSWORD}@{hosts}/postgres"
                async with open_store(url, busy_timeout=0.1) as store:
                    with pytest.raises(WindlassError, match="in clear text.*was not sent"):
                        await store.sessions()
        hosts = f"{asks},{tcp_server}"  # the control: the next one asks for none
        async with open_store(f"postgresql://windlass:{PASSWORD}@{hosts}/postgres") as store:
            assert await store.sessions() == []
        assert not fake.heard


@needs_postgres
async def test_body_that_may_only_read_is_told_so_at_once(store):
    await store.commit(make_table)
    async with asyncio.timeout(5):
        with pytest.raises(Exception, match="read-only transaction"):
            await store.consult(insert(1))


@needs_postgres
async def test_store_leaves_a_standby_alone_and_waits_until_it_is_promoted():
    with open_pair() as pair:
        first, second = (f"127.0.0.1:{one.port}" for one in (pair.standby, pair.primary))
        url = f"postgresql://windlass@{first},{second}/postgres"
        alone = f"postgresql://windlass@{first}/postgres"
        async with open_store(url) as store, open_store(alone) as late:
            journal = await store.open("s")
            await journal.commit(make_table, lambda _: [])
            await add(journal, note(1))
            async with open_store(alone, busy_timeout=0.1) as hasty:
                with pytest.raises(Locked, match="takes no writes.*promote it"):
                    await hasty.post("s", "steer", "too early")
            assert numbers(await late.read("s")) == [1]
            posting = asyncio.create_task(late.post("s", "steer", "hello"))
            pair.primary.stop()
            journal.append(note(2))
            journal.flush()
            writing = asyncio.create_task(journal.commit(insert(7), lambda _: [result("c1", "ok")]))
            done, _ = await asyncio.wait({posting, writing}, timeout=0.5)
            assert not done
            await asyncio.to_thread(pair.standby.promote)
            await asyncio.gather(posting, writing)
            assert numbers(await store.read("s")) == [1, 2]
            assert await store.consult(effects) == [7]
            await journal.close()


@needs_postgres
async def test_commit_whose_wait_for_the_standby_was_cut_off_is_not_acknowledged_before_it_has_it():
    """The primary shows what it has committed, and loses it if it fails over now."""
    with open_pair() as pair:
        async with open_store(pair.url("public")) as store:
            journal = await store.open("s")
            rows = await store.open("rows")
            await journal.commit(make_table, lambda _: [])
            pair.standby.stop()
            committing = asyncio.create_task(
                journal.commit(insert(7), lambda _: [result("c1", "ok")])
            )
            rows.append(note(1))
            rows.flush()
            writing = asyncio.create_task(rows.durable())
            for _ in range(2):  # also when it is cut off again
                await wait_for(pair.primary, "count(*) >= 2 FROM pg_stat_activity {}")
                pair.primary.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity {WAITS}")
            done, _ = await asyncio.wait({committing, writing}, timeout=1.0)
            assert not done
            pair.standby.start()
            await asyncio.gather(committing, writing)
            assert await store.consult(effects) == [7]
            assert numbers(await store.read("rows")) == [1]
            await journal.close()
            await rows.close()


@needs_postgres
async def test_writer_is_not_stale_because_a_primary_says_so_that_is_being_replaced():
    """It may know less, or other things, than the server that takes its place."""
    with open_pair() as pair:
        async with open_store(pair.url("public")) as store:
            rows, bodies = await store.open("rows"), await store.open("bodies")
            await bodies.commit(make_table, lambda _: [])
            pair.standby.stop()
            pair.primary.sql(
                "SET synchronous_commit = local; UPDATE windlass_sessions SET epoch = epoch + 1"
            )
            rows.append(note(1))
            rows.flush()
            writing = asyncio.create_task(rows.durable())
            committing = asyncio.create_task(
                bodies.commit(insert(7), lambda _: [result("c1", "ok")])
            )
            done, _ = await asyncio.wait({writing, committing}, timeout=1.0)
            assert not done
            pair.primary.signal_all(signal.SIGKILL)
            pair.standby.start()
            await asyncio.to_thread(pair.standby.promote)
            await asyncio.gather(writing, committing)
            assert numbers(await store.read("rows")) == [1]
            assert await store.consult(effects) == [7]
            await rows.close()
            await bodies.close()


WAITS = "WHERE wait_event = 'SyncRep' AND application_name = 'windlass'"


async def wait_for(server, condition):
    """Wait until the server says so."""
    async with asyncio.timeout(30):
        while server.sql(f"SELECT {condition.format(WAITS)}") != "t":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
