"""A password never goes to a Postgres server in clear text, nor to one that a project's file names."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from windlass.errors import StoreError
from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import MISSING, find_binaries, own_server

PASSWORD = "correct-horse-battery"
OK, CLEAR_TEXT, MD5 = 0, 3, 5
SSL_REQUEST = (80877103).to_bytes(4, "big")


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def authentication(code: int, more: bytes = b"") -> bytes:
    return b"R" + (8 + len(more)).to_bytes(4, "big") + code.to_bytes(4, "big") + more


class FakeServer:
    """Says what it is told to at a login, and keeps what it hears."""

    def __init__(self, says: list[bytes], tls: ssl.SSLContext | None = None) -> None:
        self._says, self._tls = says, tls
        self.heard = bytearray()
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            first = await self._read(reader)
            if first == SSL_REQUEST:
                writer.write(b"N" if self._tls is None else b"S")
                await writer.drain()
                if self._tls is not None:
                    await writer.start_tls(self._tls)
                await self._read(reader)
            for piece in self._says:
                writer.write(piece)
                await writer.drain()
            self.heard += await reader.read(4096)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size - 4)


@asynccontextmanager
async def fake_server(
    *says: bytes, tls: ssl.SSLContext | None = None, path: str | None = None
) -> AsyncIterator[FakeServer]:
    fake = FakeServer(list(says), tls)
    if path is None:
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
        fake.port = server.sockets[0].getsockname()[1]
    else:
        server = await asyncio.start_unix_server(fake.serve, path)
    try:
        yield fake
    finally:
        server.close()
        await server.wait_closed()


async def log_in(url: str) -> None:
    store = PostgresStore(url, busy_timeout=0.1)
    try:
        await store.sessions()
    finally:
        await store.aclose()


def make_context(folder) -> ssl.SSLContext:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
        + ["/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        + ["-keyout", folder / "key", "-out", folder / "crt"],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context


CLEAR = authentication(CLEAR_TEXT)
WAYS_TO_ASK = {
    "at once": [CLEAR],
    "byte by byte": [bytes([one]) for one in CLEAR],
    "after it let us in": [authentication(OK) + CLEAR],
    "after a notice": [b"N\0\0\0\x06\0\0" + CLEAR],
    "after a parameter": [b"S\0\0\0\x08a\0b\0" + CLEAR],
    "twice": [CLEAR + CLEAR],
    "with a long tail": [authentication(CLEAR_TEXT, b"x" * 5000)],
}


@pytest.mark.parametrize("way", WAYS_TO_ASK)
@pytest.mark.parametrize("mode", ["", "?sslmode=disable", "?sslmode=allow"])
async def test_clear_text_is_refused_on_this_machine(way, mode):
    async with fake_server(*WAYS_TO_ASK[way]) as fake:
        url = f"postgresql://ann:{PASSWORD}@127.0.0.1:{fake.port}/agents{mode}"
        with pytest.raises(
            StoreError, match="in clear text.*was not sent.*scram-sha-256"
        ) as caught:
            await log_in(url)
    assert PASSWORD.encode() not in fake.heard and not fake.heard
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("source", ["PGPASSWORD", "PGPASSFILE", ".pgpass", "passfile"])
async def test_clear_text_is_refused_for_passwords_from_elsewhere(source, monkeypatch, tmp_path):
    file = tmp_path / ".pgpass"
    file.write_text(f"*:*:*:*:{PASSWORD}\n")
    file.chmod(0o600)
    option = f"?passfile={file}" if source == "passfile" else ""
    if source == "PGPASSWORD":
        monkeypatch.setenv(source, PASSWORD)
    elif source == "PGPASSFILE":
        monkeypatch.setenv(source, str(file))
    async with fake_server(CLEAR) as fake:
        with pytest.raises(StoreError, match="in clear text"):
            await log_in(f"postgresql://ann@127.0.0.1:{fake.port}/agents{option}")
    assert fake.connections and not fake.heard
    async with fake_server(authentication(MD5, b"salt")) as fake:  # the control: it has a password
        with pytest.raises(StoreError):
            await log_in(f"postgresql://ann@127.0.0.1:{fake.port}/agents{option}")
    assert fake.heard.startswith(b"p") and b"md5" in fake.heard


async def test_clear_text_is_refused_on_a_socket(tmp_path):
    async with fake_server(CLEAR, path=str(tmp_path / ".s.PGSQL.5432")) as fake:
        with pytest.raises(StoreError, match="in clear text"):
            await log_in(f"postgresql://ann:{PASSWORD}@/agents?host={tmp_path}&sslmode=require")
    assert fake.connections and not fake.heard


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
async def test_clear_text_over_tls_is_sent_only_where_tls_was_asked_for(tmp_path):
    context = make_context(tmp_path)
    place = f"ann:{PASSWORD}@localhost"
    async with fake_server(CLEAR, tls=context) as fake:  # whoever listens there
        with pytest.raises(StoreError, match="in clear text"):
            await log_in(f"postgresql://{place}:{fake.port}/agents")
        assert not fake.heard
        with pytest.raises(StoreError, match="certificate"):
            await log_in(f"postgresql://{place}:{fake.port}/agents?sslmode=verify-full")
        assert not fake.heard
    async with fake_server(CLEAR, tls=context) as fake:  # the control
        verified = f"sslmode=verify-full&sslrootcert={tmp_path / 'crt'}"
        with pytest.raises(StoreError, match="cannot be reached"):
            await log_in(f"postgresql://{place}:{fake.port}/agents?{verified}")
        assert PASSWORD.encode() in fake.heard


async def test_messages_that_are_none_end_the_login():
    for said in (b"R\0\0\0\0", b"R\0\0\0\x04", b"R\xff\xff\xff\xff", b"R\0\0\0\x06\0\0"):
        async with fake_server(said + CLEAR) as fake:
            with pytest.raises(StoreError):
                await log_in(f"postgresql://ann:{PASSWORD}@127.0.0.1:{fake.port}/agents")
        assert not fake.heard


# --------------------------------------------------------------------------- a real server


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
async def test_scram_and_md5_work_and_clear_text_does_not(tmp_path):
    with own_server(durable=False) as server:
        server.sql("CREATE ROLE ann LOGIN PASSWORD 'correct-horse-battery'")
        server.sql("CREATE SCHEMA ann AUTHORIZATION ann")
        server.sql("SET password_encryption = md5; CREATE ROLE bob LOGIN PASSWORD 'b'")
        server.sql("CREATE SCHEMA bob AUTHORIZATION bob")
        hba = server.data / "pg_hba.conf"

        def require(method: str) -> None:
            hba.write_text(f"local all windlass trust\nlocal all all {method}\n")
            server.restart()

        ann = server.url(search_path="ann").replace("windlass@", f"ann:{PASSWORD}@")
        require("scram-sha-256")
        await log_in(ann)
        with pytest.raises(StoreError, match="refuses the password"):
            await log_in(ann.replace(PASSWORD, "wrong"))
        require("md5")
        await log_in(server.url(search_path="bob").replace("windlass@", "bob:b@"))
        require("password")
        with pytest.raises(StoreError, match="in clear text"):
            await log_in(ann)


# --------------------------------------------------------------------------- a project's address


async def run_command(folder, **variables: str) -> str:
    """`windlass sessions list` in a folder; what it says."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    environ |= {"HOME": str(folder.parent), "PGPASSWORD": PASSWORD, **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "from windlass.cli.main import main; main()", "sessions", "list"),
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return said.decode()


async def test_address_of_a_project_file_gets_no_password(tmp_path):
    (tmp_path / ".pgpass").write_text(f"*:*:*:*:{PASSWORD}\n")
    (tmp_path / ".pgpass").chmod(0o600)
    folder = tmp_path / "download"
    folder.mkdir()
    file = folder / "windlass.toml"
    async with fake_server(authentication(MD5, b"salt")) as fake:
        url = f"postgresql://ann@127.0.0.1:{fake.port}/agents"
        file.write_text(f'[store]\nurl = "{url}"\n')
        file.chmod(0o600)
        said = await run_command(folder)
        assert fake.connections == 0 and not fake.heard
        assert re.search(r"ignored until you trust the file.*store\.url", said)
        # The controls: the user's own word, and the user's trust.
        await run_command(folder, WINDLASS_STORE_URL=url, WINDLASS_STORE_BUSY_TIMEOUT="0.1")
        assert fake.connections and b"md5" in fake.heard
    async with fake_server(CLEAR) as fake:
        url = f"postgresql://ann@127.0.0.1:{fake.port}/agents"
        file.write_text(f'[store]\nurl = "{url}"\n')
        said = await run_command(folder, WINDLASS_TRUSTED_FILES=str(file))
        assert fake.connections and not fake.heard and "in clear text" in said
