"""Which network addresses `fetch_url` may contact: public ones, and those that are allowed.

An IPv6 address that carries an IPv4 address is judged by both. `ipaddress` alone is not enough: it calls
multicast and NAT64 addresses global, and its answers differ between versions of Python.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from windlass.access.addresses import Address, canonical_host, fits_host
from windlass.errors import ConfigError, safe_repr

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_REFUSED_V4: Final = tuple(
    ipaddress.IPv4Network(one)
    for one in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # the platform's own service on Azure
        "169.254.0.0/16",  # link-local; metadata of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")  # all that is assigned to the internet
_REFUSED_V6: Final = tuple(
    ipaddress.IPv6Network(one)
    for one in (
        "2001::/23",  # protocols; Teredo and ORCHID are in it
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
        "5f00::/16",
    )
)
_NAT64: Final = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)


class AddressRefused(OSError):
    """An address that is neither public nor allowed."""


def parse_ip(text: str) -> IPAddress:
    """Parse an IP address, without the interface that a resolver may add to it."""
    found = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def is_public(address: IPAddress) -> bool:
    """Check whether an address is one of the public internet, also by what it carries inside.

    `is_public(parse_ip("64:ff9b::7f00:1"))` is False: it is 127.0.0.1 behind NAT64.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return not any([address in one for one in _REFUSED_V4])
    carried = _carried_v4(address)
    if carried is not None:
        # Reached through a translator, if at all: public where the carried address is.
        return address in _NAT64[0] and is_public(carried)
    return address in _PUBLIC_V6 and not any([address in one for one in _REFUSED_V6])


def _carried_v4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside a mapped, translated or compatible IPv6 address."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    value = int(address)
    if any([address in one for one in _NAT64]) or value >> 32 == 0:
        return ipaddress.IPv4Address(value & 0xFFFFFFFF)
    return None


class AddressRules(msgspec.Struct, frozen=True):
    """What `fetch_url` of one agent may contact: hosts by name, and addresses that are not public."""

    hosts: tuple[str, ...] | None = None
    """Globs over hosts; None: every host."""
    private_hosts: tuple[str, ...] = ()
    """Globs over hosts whose addresses need not be public."""
    private_networks: tuple[IPNetwork, ...] = ()

    def check_host(self, address: Address) -> None:
        """Raise `AddressRefused` if the host may not be contacted, before its name is resolved."""
        if self.hosts is not None and not _fits_any(self.hosts, address):
            known = ", ".join(self.hosts) or "none"
            raise AddressRefused(
                f"{address.host} is not one of the hosts that may be fetched: {known}"
            )
        try:
            literal = parse_ip(address.host)
        except ValueError:
            return
        self.check_ip(str(literal), address)

    def check_ip(self, text: str, address: Address) -> None:
        """Raise `AddressRefused` if an address that a host resolved to may not be contacted."""
        found = parse_ip(text)
        if is_public(found) or _fits_any(self.private_hosts, address):
            return
        if any([found.version == one.version and found in one for one in self.private_networks]):
            return
        named = "" if address.host == str(found) else f"{address.host} is {found}: "
        raise AddressRefused(
            f"{named}{found} is not a public address (loopback, private, link-local, multicast or "
            "reserved), so it is not contacted"
        )


def _fits_any(patterns: Sequence[str], address: Address) -> bool:
    return any([fits_host(one, address) for one in patterns])


def build_rules(hosts: Sequence[str] | None, private: Sequence[str]) -> AddressRules:
    """Build the rules of an agent; `ConfigError` for a network that is none."""
    networks: list[IPNetwork] = []
    names: list[str] = []
    for one in private:
        network = _parse_network(one)
        if network is None:
            names.append(one)
        else:
            networks.append(network)
    return AddressRules(None if hosts is None else tuple(hosts), tuple(names), tuple(networks))


def _parse_network(text: str) -> IPNetwork | None:
    """Parse `10.0.0.0/8`; None for a host, also one that is an address, with or without a port."""
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(
            f"fetch.private: {safe_repr(text)} is no network such as '10.0.0.0/8', and no host"
        ) from None


def check_patterns(name: str, patterns: Sequence[str]) -> None:
    """Raise `ConfigError` for a pattern that is an address with a scheme or a path, or no host."""
    for one in patterns:
        if "://" in one or "@" in one or not one.strip("*. "):
            if one.strip() != "*":
                raise ConfigError(
                    f"{name}: {safe_repr(one)} is no host such as 'docs.example.com', "
                    "'*.example.com' or 'localhost:8000'"
                )
        if "/" not in one and "*" not in one and one.count(":") != 1:
            try:
                canonical_host(one)
            except ValueError as error:
                raise ConfigError(f"{name}: {safe_repr(one)} is no host: {error}") from None
