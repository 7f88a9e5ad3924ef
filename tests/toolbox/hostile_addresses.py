"""Addresses that try to make `fetch_url` contact what it may not, and a network that records contacts.

The network is a resolver and sockets that end at a Unix socket of this process, whatever they connect to.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from windlass.toolbox.fetch.client import AddressInfo, FetchClient, FetchedPage, FetchFailed
from windlass.toolbox.fetch.tool import FetchTools
from windlass.toolbox.options import Fetch

PUBLIC = "93.184.215.14"
PUBLIC_V6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
#: What must never be contacted, in the form in which a resolver gives it.
PRIVATE = (
    "127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.5 100.64.0.1 169.254.169.254 172.16.0.1 "
    "172.31.255.255 192.168.1.1 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.7 203.0.113.9 "
    "224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 168.63.129.16 ::1 :: ::ffff:127.0.0.1 "
    "::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::a00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe "
    "64:ff9b:1::7f00:1 2002:7f00:1:: 2002:a9fe:a9fe:: 2001:0:7f00:1:: 2001:db8::1 2001:10::1 fc00::1 "
    "fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1 100::1 3fff::1 5f00::1 4000::1"
).split()
#: Spellings of 127.0.0.1 and its like that some parser takes for that.
SPELLINGS = (
    "127.1 127.0.1 2130706433 0177.0.0.1 0177.1 017700000001 0x7f.0.0.1 0x7f.1 0x7f000001 0X7F000001 "
    "127.0.0.1. 127.000.000.001 0127.0.0.1 00000177.0.0.1 127.0.0x1 127.0.0.01 0 0x0 00 0.0 "
    "2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518 0xa9.254.0251.254 "
    "１２７.０.０.１ 127。0。0。1 127．0．0．1 127｡0｡0｡1 ①②⑦.⓪.⓪.① 𝟏𝟐𝟕.𝟎.𝟎.𝟏 ⑴⑵⑺.0.0.1 "
    "[::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:0001] [::127.0.0.1] "
    "[::7f00:1] [64:ff9b::127.0.0.1] [fe80::1%25lo] [fe80::1%lo] [::1%25lo] [::] [0000::1] [::FFFF:127.0.0.1] "
    "[2002:7f00:0001::] [fd00::1] [ff02::1]"
).split()
#: Whole addresses with a place of their own for the trick.
WHOLE = (
    "http://public.example@127.0.0.1/",
    "http://public.example:80@127.0.0.1/",
    "http://user:pass@127.0.0.1/",
    "http://127.0.0.1@public.example:80@127.0.0.1/",
    "http://public.example#@127.0.0.1/",
    "http://127.0.0.1#@public.example/",
    "http://127.0.0.1\\@public.example/",
    "http://public.example\\@127.0.0.1/",
    "http://public.example\\.127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "http:///127.0.0.1/",
    "http:////127.0.0.1/",
    "//127.0.0.1/",
    "127.0.0.1",
    "127.0.0.1:80/x",
    "http://127.0.0.1:80:80/",
    "http://127.0.0.1:/",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1 /",
    "http://127.0.0.1\t/",
    "http://127.0.0.1\n.public.example/",
    "http://127.0.0.1\r\nhost: public.example/",
    "http://127.0.0.1%2f@public.example/",
    "http://127.0.0.1%00.public.example/",
    "http://127.0.0.1%23.public.example/",
    "http://%31%32%37.0.0.1/",
    "http://[::1/",
    "http://::1/",
    "http://[::1].public.example/",
    "http://[v1.::1]/",
    "http://[127.0.0.1]/",
    "http://localhost\u200b/",
    "http://loc\u00adalhost/",
    "http://ⓛocalhost/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://LOCALHOST./",
    "http://localhost/",
    "http://a.localhost/",
    "HTTP://localhost/",
    "https://localhost/",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:25/_x",
    "dict://127.0.0.1:11211/stat",
    "unix:///run/docker.sock",
    "http+unix://%2frun%2fdocker.sock/",
    "ws://127.0.0.1/",
    "data:text/html,<p>x",
    "javascript:alert(1)",
    "jar:http://127.0.0.1!/",
    "view-source:http://127.0.0.1/",
    "http://",
    "http://.",
    "http://../",
    "",
    " http://127.0.0.1/",
    "\ufeffhttp://127.0.0.1/",
    "http://xn--/",
    "http://" + "a" * 300 + "/",
    "http://" + "1" * 400 + "/",
    "http://127.0.0.1/" + "a" * 9000,
)


class Hostile(NamedTuple):
    """One attempt: an address, what hosts resolve to, call by call, and where they redirect to."""

    name: str
    url: str
    answers: Mapping[str, Sequence[Sequence[str]]] = {}
    redirects: Mapping[str, str] = {}
    options: Fetch = Fetch()


def generate() -> Iterator[Hostile]:
    """Yield all attempts; none of them may contact an address that is not public."""
    for text in PRIVATE:
        host = text if "." in text and ":" not in text else f"[{text}]"
        yield Hostile(f"literal {text}", f"http://{host}/")
        yield Hostile(f"resolves to {text}", "http://evil.example/", {"evil.example": [[text]]})
        mixed = {"evil.example": [[PUBLIC, text], [text, PUBLIC]]}
        yield Hostile(f"one of two is {text}", "https://evil.example/", mixed)
        yield Hostile(
            f"redirect to {text}",
            "http://public.example/",
            {},
            {"public.example": f"http://{host}/"},
        )
        yield Hostile(
            f"rebinding to {text}",
            "http://evil.example/",
            {"evil.example": [[PUBLIC], [text]]},
            {"evil.example": "http://evil.example/again"},
        )
    for text, port in itertools.product(SPELLINGS, ("", ":8080")):
        yield Hostile(f"spelling {text}{port}", f"http://{text}{port}/")
    for text in SPELLINGS:
        yield Hostile(
            f"redirect to spelling {text}",
            "http://public.example/",
            {},
            {"public.example": f"//{text}/"},
        )
    for text in WHOLE:
        yield Hostile(f"whole {text!r:.60}", text)
        if text and text.isprintable() and text.isascii():
            yield Hostile(
                f"redirect to whole {text!r:.60}",
                "http://public.example/",
                {},
                {"public.example": text},
            )
    yield Hostile("not a host of the list", "http://public.example/", options=_only("docs.example"))
    yield Hostile(
        "redirect off the list",
        "http://docs.example/",
        {"docs.example": [[PUBLIC]], "public.example": [["127.0.0.1"]]},
        {"docs.example": "http://public.example/"},
        _only("docs.example"),
    )
    yield Hostile(
        "allowed for one host, used by another",
        "http://evil.example/",
        {"evil.example": [["127.0.0.1"]]},
        options=Fetch(private=("dev.example",)),
    )
    yield Hostile(
        "allowed on one port, used on another",
        "http://localhost:22/",
        options=Fetch(private=("localhost:8000",)),
    )
    yield Hostile(
        "another network", "http://127.0.0.1/", options=Fetch(private=("10.0.0.0/8", "fd00::/8"))
    )
    loop = {"public.example": "http://public.example/"}
    yield Hostile("redirects for ever", "http://public.example/", {}, loop)


def _only(*hosts: str) -> Fetch:
    return Fetch(hosts=hosts)


class Network:
    """A resolver and sockets that record what was contacted, and lead to one server of ours."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.attempt = Hostile("", "")
        self.contacted: list[str] = []
        self._asked: dict[str, int] = {}

    def begin(self, attempt: Hostile) -> None:
        """Forget the attempt before."""
        self.attempt, self.contacted, self._asked = attempt, [], {}

    async def lookup(self, host: str, _port: int) -> Sequence[str]:
        """Resolve a host as the attempt says; what it does not name, as libc and a zone of ours would."""
        answers = self.attempt.answers.get(host)
        if answers is None:
            return [PUBLIC] if host == "public.example" else ["127.0.0.1"]
        turn = self._asked[host] = self._asked.get(host, -1) + 1
        return answers[min(turn, len(answers) - 1)]

    def open_socket(self, info: AddressInfo) -> socket.socket:
        """Open a socket that records where it is connected to."""
        return _Recorder(self)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request: with a redirect, if the attempt has one for the host."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        host = next((line[6:] for line in head.split("\r\n") if line.startswith("host: ")), "")
        target = self.attempt.redirects.get(host)
        if target is not None:
            place = target.encode("utf-8", "surrogateescape")
            body = b"HTTP/1.1 302 Found\r\nlocation: " + place + b"\r\ncontent-length: 0\r\n\r\n"
        else:
            body = (
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\n<p>Hello!"
            )
        writer.write(body)
        writer.close()


class _Recorder(socket.socket):
    def __init__(self, network: Network) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._network = network

    def connect(self, address: object) -> None:
        assert isinstance(address, tuple)
        self._network.contacted.append(str(address[0]))
        super().connect(self._network.path)


@asynccontextmanager
async def serve_network(folder: Path) -> AsyncGenerator[Network]:
    """Provide the network; it lives in one Unix socket in the folder."""
    network = Network(str(folder / "s"))
    server = await asyncio.start_unix_server(network.answer, network.path)
    try:
        yield network
    finally:
        server.close()


async def try_all(folder: Path) -> tuple[int, list[str]]:
    """Try all attempts; return how many, and those that were not refused or contacted somebody."""
    wrong: list[str] = []
    attempts = list(generate())
    async with serve_network(folder) as network:
        for attempt in attempts:
            network.begin(attempt)
            try:
                await fetch_page(build_tools(network, attempt.options), attempt.url)
                refused = False
            except FetchFailed:
                refused = True
            bad = [one for one in network.contacted if one not in (PUBLIC, PUBLIC_V6)]
            # What is behind a # is no host to anybody: these two go to the public one.
            if bad or (not refused and "#@" not in attempt.url + str(attempt.redirects)):
                wrong.append(f"{attempt.name}: contacted {bad}, refused {refused}")
    return len(attempts), wrong


async def fetch_page(tools: FetchTools, url: str) -> FetchedPage:
    """Fetch a page with the client of the tool."""
    client: FetchClient = tools._client  # pyright: ignore[reportPrivateUsage]
    return await client.fetch(url)


def build_tools(network: Network, options: Fetch) -> FetchTools:
    """Build `fetch_url` on this network."""
    return FetchTools(options, lookup=network.lookup, sockets=network.open_socket)
