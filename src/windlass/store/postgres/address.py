"""URLs of Postgres servers: hosts, login, and how the connection is protected.

An address is read here and nowhere else. The driver is given hosts, names and modes one by one, so that
it cannot find a host in the text that was not checked here.
"""

from __future__ import annotations

import functools
import importlib.util
import ipaddress
import os
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject

MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_MAY_BE_PLAIN: Final = frozenset({"allow", "prefer"})
_UNVERIFIED: Final = frozenset({"disable", "allow", "prefer", "require"})
_ALWAYS_TLS: Final = frozenset({"require", "verify-ca", "verify-full"})
# Where Postgres listens on this machine by default.
_USUAL_HOSTS: Final = (
    *(
        f"{os.sep}{folder}"
        for folder in ("run/postgresql", "var/run/postgresql", "tmp", "private/tmp")
    ),
    "localhost",
)
_TLS_OPTIONS: Final = frozenset(
    "sslcert sslkey sslrootcert sslnegotiation sslcrl sslpassword"
    " ssl_min_protocol_version ssl_max_protocol_version".split()
)
_DRIVER_OPTIONS: Final = frozenset({"passfile", "krbsrvname", "gsslib"})
_READ_HERE: Final = frozenset(
    "host port user password dbname database sslmode target_session_attrs".split()
)
SESSION_ATTRS: Final = (
    *("any", "read-write", "primary"),
    *("read-only", "standby", "prefer-standby"),
)
# They lead to a server that the address does not name.
_REFUSED: Final = ("service", "servicefile", "hostaddr")


class Address:
    """A URL, shown without its secret: `Address("postgresql://ann:secret@db/agents")`."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            options = {name: value for name, value in pairs if value}
            login, at, place = parts.netloc.rpartition("@")
            if "@" in login or parts.netloc.count("@") > 1:
                raise ValueError
            hosts, ports = _read_hosts(place, options)
        except ValueError:
            raise ConfigError(
                "the store's address cannot be read; write postgresql://user:password@host:5432/name "
                "and escape what is special in the password (%40 for @, %2F for /)"
            ) from None
        user, _, password = login.partition(":") if at else ("", "", "")
        name = unquote(parts.path[1:]) or options.get("dbname") or options.get("database", "")
        if parts.fragment or "/" in name or "@" in name:
            # Perhaps the rest of a password: not shown.
            raise ConfigError(
                "the store's address names no database; write postgresql://user:password@host/name "
                "and escape what is special in the password (%40 for @, %2F for /, %23 for #)"
            )
        for option in _REFUSED:
            if option in options:
                raise ConfigError(
                    f"the store's address may not use {option}; write the host itself"
                )
        self.hosts, self.ports = hosts, ports
        self.user = unquote(user) or options.get("user") or None
        self.password = unquote(password) or options.get("password") or None
        self.database = name or None
        self.url = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
        shown_place = place or options.get("host", "")
        self.shown = f"postgresql://{f'{self.user}@' if self.user else ''}{shown_place}/{name}"
        self.is_local = all(map(is_local, hosts))
        self.tls_mode = _choose_tls_mode(options.get("sslmode"), self.is_local)
        self.tls_options = {key: options[key] for key in _TLS_OPTIONS & options.keys()}
        self.session_attrs = _choose_session_attrs(
            options.get("target_session_attrs"), several=len(hosts) > 1 and hosts != _USUAL_HOSTS
        )
        self.driver_options = {key: options[key] for key in _DRIVER_OPTIONS & options.keys()}
        known = _TLS_OPTIONS | _DRIVER_OPTIONS | _READ_HERE
        self.settings = {key: value for key, value in options.items() if key not in known}
        _require_driver()

    def __repr__(self) -> str:
        return self.shown

    @property
    def is_always_encrypted(self) -> bool:
        """Whether every connection over TCP uses TLS."""
        return self.tls_mode in _ALWAYS_TLS

    @property
    def warning(self) -> str | None:
        """A warning to the user about the connection, if one is due."""
        if self.is_local or self.tls_mode not in _UNVERIFIED:
            return None
        if self.tls_mode == "disable":
            return (
                f"{self}: sslmode=disable: sessions cross the network in clear text; "
                "remove it to use TLS"
            )
        return (
            f"{self}: sslmode={self.tls_mode}: nobody checks which server answers; use verify-full"
        )

    @property
    def driver_arguments(self) -> JsonObject:
        """The arguments of the driver's `connect`."""
        return {
            # Options that the driver takes from an address only; it names no host.
            "dsn": f"postgresql://?{urlencode(self._tls_dsn_options)}",
            "host": list(self.hosts),
            "port": None if self.ports is None else list(self.ports),
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "ssl": self._tls,
            "target_session_attrs": self.session_attrs,
            **self.driver_options,
        }

    def list_host_arguments(self) -> list[JsonObject]:
        """Return the arguments of the driver's `connect` for each host alone, in the order of trial."""
        shared = self.driver_arguments
        ports = (None,) * len(self.hosts) if self.ports is None else self.ports
        asked = ["standby", "any"] if self.session_attrs == "prefer-standby" else []
        return [
            {**shared, "host": [host], "port": port, "target_session_attrs": attrs}
            for attrs in asked or [self.session_attrs]
            for host, port in zip(self.hosts, ports, strict=True)
        ]

    @property
    def _tls_dsn_options(self) -> dict[str, str]:
        used = self.tls_options
        if isinstance(self._tls, ssl.SSLContext):
            return {key: value for key, value in used.items() if key == "sslnegotiation"}
        return used

    @functools.cached_property
    def _tls(self) -> str | ssl.SSLContext:
        """The mode, or a context with the system's certificates where no others are named."""
        if all(host.startswith("/") for host in self.hosts):
            return "disable"  # a socket has none
        if self.tls_mode not in ("verify-ca", "verify-full"):
            return self.tls_mode
        root = self.tls_options.get("sslrootcert") or os.environ.get("PGSSLROOTCERT", "")
        if root != "system" and (root or (Path.home() / ".postgresql" / "root.crt").exists()):
            return self.tls_mode
        context = ssl.create_default_context()
        context.check_hostname = self.tls_mode == "verify-full"
        certificate = self.tls_options.get("sslcert") or os.environ.get("PGSSLCERT")
        if certificate:
            key = self.tls_options.get("sslkey") or os.environ.get("PGSSLKEY")
            context.load_cert_chain(certificate, key, self.tls_options.get("sslpassword", ""))
        context.set_alpn_protocols(["postgresql"])
        return context


def has_weak_tls(url: str) -> bool:
    """Check whether the URL asks for less than verified TLS to another machine."""
    try:
        parts = urlsplit(url)
        options = {name: value for name, value in parse_qsl(parts.query) if value}
        hosts, _ = _read_hosts(parts.netloc.rpartition("@")[2], options)
    except ValueError:
        return False  # it is refused where it is used
    return options.get("sslmode") in _UNVERIFIED and not all(map(is_local, hosts))


def is_local(host: str) -> bool:
    """Check whether a host is a socket's folder, or this machine."""
    if host.startswith("/") or host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_hosts(
    place: str, options: dict[str, str]
) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Return the hosts to try in order, and their ports; None for the default port."""
    if place:
        found = [_read_host(unquote(one)) for one in place.split(",")]
    elif given := options.get("host") or os.environ.get("PGHOST"):
        found = [_read_host(one) for one in given.split(",")]
    else:
        found = [(host, None) for host in _USUAL_HOSTS]
    hosts, named = tuple(host for host, _ in found), [port for _, port in found]
    usual = options.get("port") or os.environ.get("PGPORT") or "5432"
    ports = [int(one) for one in usual.split(",")]
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ValueError("a port for each host")
    return hosts, tuple(
        port if own is None else own for own, port in zip(named, ports, strict=True)
    )


def _read_host(text: str) -> tuple[str, int | None]:
    """Parse `host`, `host:port`, `[::1]:port`, or the folder of a socket."""
    if text.startswith("/"):
        return text, None
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not closed or colon not in ("", ":"):
            raise ValueError("no address")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host or any(sign.isspace() or sign in "@/?#\\" for sign in host):
        raise ValueError("no host")
    return host, int(port) if port else None


def _choose_tls_mode(asked: str | None, local: bool) -> str:
    """Return the TLS mode of the URL, else of the environment, else the safe default."""
    mode = asked or os.environ.get("PGSSLMODE")
    if mode is None or mode == "":
        return "prefer" if local else "verify-full"
    if mode not in MODES:
        raise ConfigError(f"the store's sslmode={mode!r} is none of {', '.join(MODES)}")
    if mode in _MAY_BE_PLAIN and not local:
        raise ConfigError(
            f"the store's server is not on this machine, and with sslmode={mode} anybody on the way "
            "can make the connection clear text; use verify-full (the default), or require "
            "where nobody can check the certificate, or disable if the network is yours"
        )
    return mode


def _choose_session_attrs(asked: str | None, *, several: bool) -> str:
    """Return which of the hosts is wanted: the one that takes writes, if there are several."""
    attrs = asked or os.environ.get("PGTARGETSESSIONATTRS")
    if not attrs:
        return "read-write" if several else "any"
    if attrs not in SESSION_ATTRS:
        raise ConfigError(
            f"the store's target_session_attrs={attrs!r} is none of {', '.join(SESSION_ATTRS)}"
            f"{nearest(attrs, SESSION_ATTRS)}"
        )
    return attrs


def _require_driver() -> None:
    missing = [name for name in ("asyncpg", "greenlet") if not importlib.util.find_spec(name)]
    if missing:
        raise ConfigError(
            f"a store on Postgres needs {' and '.join(missing)}: pip install 'windlass[postgres]'"
        )
