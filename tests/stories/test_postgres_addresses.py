"""A Postgres server elsewhere is spoken to over verified TLS, whichever way its address is written."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import ssl
import subprocess
from contextlib import contextmanager

import pytest

from windlass.errors import ConfigError, StoreError
from windlass.store.open import StoreConfig
from windlass.store.postgres import address as postgres_address
from windlass.store.postgres.address import Address, is_local
from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import MISSING, find_binaries, own_server

REMOTE = ["db.example.org", "10.0.0.7", "[2001:db8::1]"]


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


# --------------------------------------------------------------------------- the rule


@pytest.mark.parametrize("host", REMOTE)
def test_remote_server_is_verified_unless_the_user_says_otherwise(host, monkeypatch, caplog):
    plain = Address(f"postgresql://ann:pw@{host}/agents")
    assert plain.tls_mode == "verify-full" and plain.warning is None
    context = plain.driver_arguments["ssl"]
    assert context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
    for mode in ("disable", "require"):
        address = Address(f"postgresql://ann:pw@{host}/agents?sslmode={mode}")
        assert address.tls_mode == address.driver_arguments["ssl"] == mode
        with caplog.at_level(logging.WARNING):
            PostgresStore(address.url)
        assert f"sslmode={mode}" in caplog.text and "pw" not in caplog.text
        caplog.clear()
    for mode in ("allow", "prefer", "VERIFY-FULL", "none"):
        with pytest.raises(ConfigError, match="sslmode") as caught:
            Address(f"postgresql://ann:pw@{host}/agents?sslmode={mode}")
        assert "pw" not in str(caught.value)
        monkeypatch.setenv("PGSSLMODE", mode)
        with pytest.raises(ConfigError, match="sslmode"):
            Address(f"postgresql://ann:pw@{host}/agents")
        monkeypatch.delenv("PGSSLMODE")


@pytest.mark.parametrize(
    "rest",
    [
        "localhost/a",
        "LOCALHOST/a",
        "127.0.0.1:5433/a",
        "[::1]/a",
        "[::1]:5433/a",
        "/a?host=/run/pg",
        "%2Frun%2Fpg/a",
        "/a",
        "localhost,127.0.0.1:5433/a",
    ],
)
def test_this_machine_may_do_without_tls(rest):
    address = Address(f"postgresql://{rest}")
    assert address.is_local and address.tls_mode == "prefer"
    joined = f"postgresql://{rest}{'&' if '?' in rest else '?'}sslmode="
    assert Address(f"{joined}disable").tls_mode == "disable"
    assert Address(f"{joined}disable").warning is None
    assert Address(f"{joined}verify-full").tls_mode == "verify-full"


REMOTE_IN_DISGUISE = [
    "localhost.evil.com/a",
    "0.0.0.0/a",
    "127.0.0.1.evil.com/a",
    "127.1/a",
    "[::]/a",
    "localhost,evil.com/a",
    "localhost:5432,evil.com:5432/a",
    "localhost,127.0.0.1,10.0.0.7/a",
    "evil.com/a?host=localhost",
    "/a?host=evil.com&host=",
    "/a?host=localhost&host=evil.com",
    "/a?host=localhost,evil.com",
    "%65vil.com/a",
    "@evil.com/a",
    "localhost@evil.com/a",
    "localhost:pw@evil.com/a",
    "%40/a",
    "[::ffff:10.0.0.7]/a",
]


@pytest.mark.parametrize("rest", REMOTE_IN_DISGUISE)
def test_remote_server_in_disguise_is_remote(rest):
    try:
        address = Address(f"postgresql://{rest}")
    except ConfigError:
        return
    assert not address.is_local and address.tls_mode == "verify-full"
    # The driver is told the hosts that were looked at, and nothing to find others in.
    assert tuple(address.driver_arguments["host"]) == address.hosts
    assert address.driver_arguments["dsn"] == "postgresql://?"


@pytest.mark.parametrize(
    "rest",
    [
        "a@evil.com,x@localhost/a",
        "localhost/a?service=evil",
        "localhost/a?hostaddr=10.0.0.7",
        "/a?servicefile=/etc/x",
        "localhost,/a",
        "[::1/a",
        "loc alhost/a",
    ],
)
def test_address_that_can_be_read_in_two_ways_is_refused(rest):
    with pytest.raises(ConfigError):
        Address(f"postgresql://{rest}")


def test_environment_counts_as_the_driver_would_read_it(monkeypatch):
    monkeypatch.setenv("PGHOST", "db.example.org")
    address = Address("postgresql:///agents")
    assert (address.hosts, address.tls_mode) == (("db.example.org",), "verify-full")
    monkeypatch.setenv("PGHOST", "localhost,db.example.org")
    assert Address("postgresql:///agents").tls_mode == "verify-full"
    assert Address("postgresql://localhost/agents").is_local  # the control: it has a host
    monkeypatch.setenv("PGSSLMODE", "disable")
    assert "clear text" in (Address("postgresql:///agents").warning or "")
    monkeypatch.setenv("PGSERVICE", "evil")
    assert Address("postgresql://localhost/agents").driver_arguments["host"] == ["localhost"]


def test_ports_users_and_settings_are_read():
    address = Address("postgresql://an%40n:p%2Fw@localhost:1,[::1]:2/agents?jit=on&sslkey=k&jit=")
    assert (address.hosts, address.ports) == (("localhost", "::1"), (1, 2))
    assert (address.user, address.password, address.database) == ("an@n", "p/w", "agents")
    assert address.settings == {"jit": "on"} and address.tls_options == {"sslkey": "k"}
    assert "p/w" not in repr(address) and "p%2Fw" not in repr(address)
    assert Address("postgresql://a,b/x?port=5,6&sslmode=require").ports == (5, 6)
    with pytest.raises(ConfigError):
        Address("postgresql://a,b,c/x?port=5,6")


def test_trusted_project_file_does_not_weaken_tls(tmp_path, monkeypatch):
    from windlass.config import loader

    monkeypatch.chdir(tmp_path)
    file = tmp_path / "windlass.toml"
    monkeypatch.setenv("WINDLASS_TRUSTED_FILES", str(file))
    for mode in ("disable", "require", "prefer"):
        url = f"postgresql://db.example.org/a?sslmode={mode}"
        file.write_text(f'[store]\nurl = "{url}"\n')
        file.chmod(0o600)
        with pytest.raises(ConfigError, match="environment or your own file may weaken sslmode"):
            loader.load()
    for url in (
        "postgresql://db.example.org/a",
        "postgresql://db.example.org/a?sslmode=verify-full",
        "postgresql://localhost/a?sslmode=disable",
    ):
        file.write_text(f'[store]\nurl = "{url}"\n')
        assert loader.load().get(StoreConfig).url == url
    file.unlink()
    weak = "postgresql://db.example.org/a?sslmode=disable"  # the control: the user's own word
    monkeypatch.setenv("WINDLASS_STORE_URL", weak)
    assert loader.load().get(StoreConfig).url == weak


# --------------------------------------------------------------------------- a server with TLS


def make_certificate(folder, name: str) -> None:
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-addext",
            f"subjectAltName=DNS:{name}",
            "-keyout",
            folder / "server.key",
            "-out",
            folder / "server.crt",
        ],
        check=True,
        capture_output=True,
    )


@contextmanager
def tls_server(tmp_path, name: str):
    """A server on loopback whose certificate says this name, and its address."""
    make_certificate(tmp_path, name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    with own_server(durable=False, settings=settings) as server:
        owner = server.data.stat()
        for file in ("server.key", "server.crt"):
            shutil.copy(tmp_path / file, server.data / file)
            os.chown(server.data / file, owner.st_uid, owner.st_gid)
            (server.data / file).chmod(0o600)
        with (server.data / "postgresql.conf").open("a") as conf:
            conf.write("ssl = on\n")
        server.restart()
        yield f"postgresql://windlass@localhost:{port}/postgres"


async def ask(url: str) -> object:
    store = PostgresStore(url, busy_timeout=5.0)
    try:
        await store.sessions()
        return await store.consult(
            lambda tx: tx.execute(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).fetchone()[0]
        )
    finally:
        await store.aclose()


needs_server = pytest.mark.skipif(
    find_binaries() is None or shutil.which("openssl") is None, reason=MISSING
)


@needs_server
async def test_certificate_of_a_remote_server_is_verified(tmp_path, monkeypatch):
    with tls_server(tmp_path, "localhost") as url:
        assert await ask(url) is True  # on this machine TLS is used where there is some
        monkeypatch.setattr(postgres_address, "is_local", lambda host: False)
        with pytest.raises(StoreError, match="certificate was not accepted.*sslrootcert"):
            await ask(url)
        assert await ask(f"{url}?sslrootcert={tmp_path / 'server.crt'}") is True
        assert await ask(f"{url}?sslmode=require") is True
        assert await ask(f"{url}?sslmode=disable") is False
        monkeypatch.setenv("PGSSLROOTCERT", str(tmp_path / "server.crt"))
        assert await ask(url) is True


@needs_server
async def test_certificate_of_another_host_is_refused(tmp_path, monkeypatch):
    with tls_server(tmp_path, "db.example.org") as url:
        monkeypatch.setattr(postgres_address, "is_local", lambda host: False)
        root = f"sslrootcert={tmp_path / 'server.crt'}"
        with pytest.raises(StoreError, match="certificate was not accepted"):
            await ask(f"{url}?{root}")
        assert await ask(f"{url}?{root}&sslmode=verify-ca") is True


@needs_server
async def test_remote_server_without_tls_is_refused(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    with own_server(durable=False, settings=settings):
        url = f"postgresql://windlass@127.0.0.1:{port}/postgres"
        assert await ask(url) is False  # the control: this machine
        monkeypatch.setattr(postgres_address, "is_local", lambda host: False)
        with pytest.raises(StoreError, match="offers no TLS"):
            await ask(url)


def test_local_hosts_are_loopback_and_sockets():
    assert all(map(is_local, ["/run", "localhost", "127.0.0.1", "127.9.9.9", "::1"]))
    assert not any(map(is_local, ["", "0.0.0.0", "::", "localhost.", "@x", "10.0.0.7", "host"]))
