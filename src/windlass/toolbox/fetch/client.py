"""One request for a web page, to an address that was checked.

Every host is checked before it is resolved, every address that it resolves to, and once more the address of
each socket that is opened, which is the one that is connected to. Redirects are followed one by one by the
same way. There is no proxy, no cookie, no key and no second use of a connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from windlass.access.addresses import Address, parse_address
from windlass.toolbox.fetch.address_rules import AddressRefused, AddressRules, parse_ip

#: Resolves a host and a port to IP addresses.
Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
#: `(family, type, protocol, name, address)`, as `socket.getaddrinfo` gives it.
AddressInfo: TypeAlias = tuple[
    int | socket.AddressFamily,
    int | socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
#: Opens the socket for a connection, not yet connected.
OpenSocket: TypeAlias = Callable[[AddressInfo], socket.socket]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {
    "accept": "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
    "user-agent": "windlass-fetch",
}


class FetchFailed(Exception):
    """A page that could not be fetched, in words for the model."""


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it came: the bytes are unpacked, and may be cut."""

    url: str
    status: int
    content_type: str
    data: bytes
    is_cut: bool
    redirects: tuple[str, ...] = ()
    """Where the way led before `url`."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the resolver of the system."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys([str(one[4][0]) for one in found]))


def open_socket(info: AddressInfo) -> socket.socket:
    """Open a socket for an address."""
    return socket.socket(family=info[0], type=info[1], proto=info[2])


class FetchClient(msgspec.Struct, frozen=True, kw_only=True):
    """What fetches pages for one agent, within its rules and limits."""

    rules: AddressRules
    max_bytes: int
    max_redirects: int
    timeout: float
    lookup: Lookup = look_up
    open_socket: OpenSocket = open_socket

    async def fetch(
        self, url: str, on_redirect: Callable[[str], None] = lambda url: None
    ) -> FetchedPage:
        """Fetch a page; `FetchFailed` if it may not be, or cannot be."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self._follow(url, on_redirect)
        except TimeoutError:
            raise FetchFailed(f"{url} did not answer in full within {self.timeout:g} s") from None

    async def _follow(self, url: str, on_redirect: Callable[[str], None]) -> FetchedPage:
        passed: list[str] = []
        while True:
            address = parse_url(url)
            target = _build_url(address)
            page, location = await self._request(address, target)
            if location is None:
                return msgspec.structs.replace(page, redirects=tuple(passed))
            passed.append(str(target))
            if len(passed) > self.max_redirects:
                raise FetchFailed(f"more than {self.max_redirects} redirects, the last to {url}")
            url = _join(target, location)
            on_redirect(url)

    async def _request(self, address: Address, target: URL) -> tuple[FetchedPage, str | None]:
        """Ask for one page; return it and, for a redirect, where it leads."""
        try:
            self.rules.check_host(address)
            connector = aiohttp.TCPConnector(
                resolver=_CheckedResolver(self, address),
                socket_factory=partial(self._open_checked, address),
                use_dns_cache=False,
                force_close=True,
            )
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=None),
                    trust_env=False,
                ) as session,
                session.get(target, headers=_HEADERS, allow_redirects=False) as response,
            ):
                location = response.headers.get("location")
                if response.status in _REDIRECTS and location:
                    return _describe(target, response, b"", False), location
                data, is_cut = await self._read(response)
                return _describe(target, response, data, is_cut), None
        except AddressRefused as error:
            raise FetchFailed(f"{target} is not fetched: {error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            refused = _find_refusal(error)
            if refused is not None:
                raise FetchFailed(f"{target} is not fetched: {refused}") from None
            words = str(error) or type(error).__name__
            raise FetchFailed(f"{target} cannot be fetched: {words}") from None

    def _open_checked(self, address: Address, info: AddressInfo) -> socket.socket:
        self.rules.check_ip(str(info[4][0]), address)
        return self.open_socket(info)

    async def _read(self, response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        """Read up to the limit of unpacked bytes."""
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_chunked(65_536):
            pieces.append(piece)
            size += len(piece)
            if size > self.max_bytes:
                response.close()
                return b"".join(pieces)[: self.max_bytes], True
        return b"".join(pieces), False


class _CheckedResolver(AbstractResolver):
    """A resolver that refuses a host if one of its addresses may not be contacted."""

    def __init__(self, client: FetchClient, address: Address) -> None:
        self._client, self._address = client, address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._client.lookup(host, port)
        for one in found:
            self._client.rules.check_ip(one, self._address)
        return [_as_result(host, one, port) for one in found]

    async def close(self) -> None:
        """Do nothing: it holds nothing."""


def _as_result(host: str, text: str, port: int) -> ResolveResult:
    found = parse_ip(text)
    return ResolveResult(
        hostname=host,
        host=str(found),
        port=port,
        family=socket.AF_INET if found.version == 4 else socket.AF_INET6,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


def parse_url(text: str) -> Address:
    """Parse an http or https address; `FetchFailed` if it is none, or unclear."""
    try:
        address = parse_address(text)
    except ValueError as error:
        raise FetchFailed(f"{text[:200]!r} is no address that can be fetched: {error}") from None
    if address.scheme not in ("http", "https"):
        raise FetchFailed(f"{text[:200]!r} is no http or https address")
    written = (URL(text).raw_host or "").removesuffix(".")
    if ":" not in written and written != address.host and _is_ip(address.host):
        # Octal to some parsers, decimal to others.
        raise FetchFailed(f"{text[:200]!r} is unclear; write its host as {address.host}")
    return address


def _is_ip(host: str) -> bool:
    try:
        parse_ip(host)
    except ValueError:
        return False
    return True


def _build_url(address: Address) -> URL:
    """Build what is connected to from the host that was checked, and from nothing else."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    port = "" if address.port is None else f":{address.port}"
    path = address.path if address.path.startswith("/") else f"/{address.path}"
    target = URL(f"{address.scheme}://{host}{port}{path}", encoded=True)
    if target.host != address.host:
        raise FetchFailed(f"{address.host!r} is no host that can be connected to")
    return target


def _join(target: URL, location: str) -> str:
    """Return where a redirect leads, as a text that is parsed and checked like any other."""
    if len(location) > 8_000 or "\\" in location:
        raise FetchFailed(f"{target} leads to an address that is unclear")
    try:
        return str(target.join(URL(location, encoded=True)).with_fragment(None))
    except ValueError as error:
        raise FetchFailed(f"{target} leads to an address that is none: {error}") from None


def _describe(
    target: URL, response: aiohttp.ClientResponse, data: bytes, is_cut: bool
) -> FetchedPage:
    headers: Mapping[str, str] = response.headers
    return FetchedPage(
        url=str(target),
        status=response.status,
        content_type=headers.get("content-type", ""),
        data=data,
        is_cut=is_cut,
    )


def _find_refusal(error: BaseException) -> AddressRefused | None:
    """Find our own refusal behind an error of the HTTP client."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, AddressRefused):
            return seen
        inner = getattr(seen, "os_error", None)
        seen = inner if isinstance(inner, AddressRefused) else seen.__cause__ or seen.__context__
    return None
