"""Addresses as a connection takes them: one spelling for a host, none if unclear.

The parser is yarl, which the HTTP client uses. Above that, the numeric forms of an IPv4
address that resolvers accept are written out, and what parsers disagree about (user names, backslashes,
control characters, percent signs in a host) is no address at all.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

import idna
from yarl import URL

from windlass.globs import like

_LONGEST: Final = 8192  # characters of an address
_UNCLEAR: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!\d+(?:[/?#]|$))")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_DOTS: Final = re.compile("[\u3002\uff0e\uff61\u2024\ufe52]")  # what IDNA, or NFKC, takes for a dot
_WITH_HOST: Final = frozenset({"http", "https", "ws", "wss", "ftp", "ftps"})
_WITHOUT_HOST: Final = frozenset(
    {"about", "blob", "data", "file", "geo", "javascript", "mailto", "sms", "tel", "urn"}
)
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


class Address(NamedTuple):
    """A parsed address. `host` is empty where the scheme has none (`mailto:`)."""

    scheme: str  # empty where none was written
    host: str
    port: int | None  # None: the scheme's own
    path: str  # as it is sent, with its query
    decoded: str  # the path with percent signs decoded, and then without dot segments
    plain: bool  # the host was written as itself, and not in letters that only map to it

    @property
    def texts(self) -> tuple[str, ...]:
        """The spellings that a pattern may be written for."""
        if not self.host:
            return (f"{self.scheme}:{self.path}",)
        port = "" if self.port is None else f":{self.port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        start = f"{self.scheme}://" if self.scheme else "//"
        found = [self.host, f"{host}{port}"]
        for path in (self.path, self.decoded):
            found += [f"{start}{host}{port}{path}", f"{host}{port}{path}"]
        if self.path in ("", "/"):
            found.append(f"{start}{host}{port}")
        return tuple(dict.fromkeys(found))


def parse_address(text: str) -> Address:
    """Parse an address, with or without a scheme; raise ValueError where it is unclear.

    `parse_address("https://EVIL。com./x").host` is `"evil.com"`.
    """
    if not text or len(text) > _LONGEST or _UNCLEAR.search(text):
        raise ValueError("it is no address")
    scheme = _SCHEME.match(text)
    if scheme is None:
        url = URL(text if text.startswith("//") else f"//{text}")
    elif (name := scheme[1].lower()) in _WITH_HOST or text.startswith("//", scheme.end()):
        if not text.startswith("//", scheme.end()):
            raise ValueError(f"{name} needs a host")
        if name == "file" and text.startswith("///", scheme.end()):
            return Address(
                name, "", None, text[scheme.end() :], unquote(text[scheme.end() :]), True
            )
        url = URL(text)
    elif name not in _WITHOUT_HOST:
        raise ValueError(f"{name} is no scheme that is known")
    else:
        rest = text[scheme.end() :]
        return Address(name, "", None, rest, unquote(rest), True)
    if url.raw_user is not None or url.raw_password is not None:
        raise ValueError("it holds a user name")
    if not url.raw_host:
        raise ValueError("it has no host")
    host = canonical_host(url.raw_host)
    query = f"?{url.raw_query_string}" if url.raw_query_string else ""
    port = url.explicit_port
    return Address(
        url.scheme,
        host,
        None if port == _PORTS.get(url.scheme) else port,
        url.raw_path + query,
        _normalize(url.path) + query,
        _is_plain(text),
    )


def _normalize(path: str) -> str:
    if not path.startswith("/"):
        return path
    made = posixpath.normpath("/" + path.replace("\\", "/").lstrip("/"))
    return made + "/" if path.endswith("/") and made != "/" else made


def _is_plain(text: str) -> bool:
    authority = text.partition("//")[2] if "//" in text else text
    written = re.split(r"[/?#]", authority, maxsplit=1)[0]
    return unicodedata.normalize("NFKC", written) == written and not _DOTS.search(written)


def canonical_host(text: str) -> str:
    """Return the canonical spelling of a host, or raise ValueError.

    `canonical_host("0x7f.1")` is `"127.0.0.1"`, `canonical_host("Bücher.example.")` is
    `"xn--bcher-kva.example"`.
    """
    host = text.strip("[]") if text.startswith("[") else text
    if ":" in host:
        return _canonical_v6(host)
    if not host.isascii():
        host = idna.encode(_DOTS.sub(".", host), uts46=True).decode()
    host = host.lower().removesuffix(".")
    if len(host) > 253:
        raise ValueError("the host is too long")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _canonical_v4(labels)
    if not all([_LABEL.fullmatch(label) for label in labels]):
        raise ValueError("the host holds what no host holds")
    return host


def _canonical_v6(host: str) -> str:
    found = ipaddress.IPv6Address(host)
    if found.scope_id is not None:
        raise ValueError("the host names an interface")
    return str(found.ipv4_mapped or found)


def _canonical_v4(labels: list[str]) -> str:
    """Parse an IPv4 address as resolvers do: up to four octal, decimal or hex numbers."""
    if len(labels) > 4 or not all([_NUMBER.fullmatch(label) for label in labels]):
        raise ValueError("the host is no IPv4 address")
    numbers = [_read_number(label) for label in labels]
    *first, last = numbers
    if any([number > 255 for number in first]) or last >= 256 ** (5 - len(numbers)):
        raise ValueError("the host is no IPv4 address")
    value = sum([number << (8 * (3 - at)) for at, number in enumerate(first)]) + last
    return str(ipaddress.IPv4Address(value))


def _read_number(label: str) -> int:
    if len(label) > 16:
        raise ValueError("the number is too long")
    if label[:2] in ("0x", "0X"):
        return int(label[2:] or "0", 16)
    return int(label, 8) if label.startswith("0") and label != "0" else int(label)


def fits_host(pattern: str, address: Address) -> bool:
    """Check whether the host, and its port if the pattern has one, fits a glob."""
    wanted, port = _split_port(pattern)
    if port is not None and port != str(address.port or _PORTS.get(address.scheme, "")):
        return False
    return bool(address.host) and like(_canonical_pattern(wanted), address.host)


def fits_url(pattern: str, address: Address, *, wholly: bool = True) -> bool:
    """Check whether the address lies within a glob over addresses.

    The pattern is taken apart as an address is: `https://*.example.com/v1/*` is about the scheme, the
    host and the path, and no star reaches from one into the other. In a path a star crosses slashes.
    Unless it must fit `wholly`, a pattern without a port is about every port, one without a path about
    every path, and one reading of the path is enough.
    """
    scheme, mark, rest = pattern.partition("://")
    if not mark:
        scheme, rest = "*", pattern.removeprefix("//")
    host, slash, path = rest.partition("/")
    if not like(scheme.lower(), address.scheme) or not fits_host(host, address):
        return False
    if wholly and address.port is not None and host != "*" and _split_port(host)[1] is None:
        return False  # a port of its own is another server
    if not slash:
        return not wholly or not mark or host.endswith("*") or address.path in ("", "/")
    readings = [like("/" + path, one) for one in (address.path, address.decoded)]
    return all(readings) if wholly else any(readings)


def _split_port(pattern: str) -> tuple[str, str | None]:
    if pattern.startswith("[") or pattern.count(":") != 1:
        host, _, port = pattern.rpartition("]:") if "]:" in pattern else (pattern, "", "")
        return (host + "]", port) if port else (pattern, None)
    host, _, port = pattern.partition(":")
    return host, port


def _canonical_pattern(pattern: str) -> str:
    """Convert the labels of a glob over hosts to their canonical spelling."""
    try:
        return canonical_host(pattern)
    except ValueError:
        pass
    labels = _DOTS.sub(".", pattern).lower().removesuffix(".").split(".")
    return ".".join([_canonical_label(label) for label in labels])


def _canonical_label(label: str) -> str:
    if label.isascii():
        return label
    try:
        return canonical_host(label)
    except ValueError:
        return label


def host_spellings(text: str) -> Iterable[str]:
    """Return the spellings of an address in a text; none if it is no address."""
    try:
        return parse_address(text).texts
    except ValueError:
        return ()
