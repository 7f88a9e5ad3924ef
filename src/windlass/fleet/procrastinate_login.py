"""The store's address in the words of libpq, so that Procrastinate connects as safely as the store."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg.pq

from windlass.store.postgres.address import Address

_REQUIRES_AUTH = 160_000  # the first version of libpq that can refuse clear text passwords


def connect_arguments(address: Address, search_path: str, lease: float) -> dict[str, object]:
    """Return the arguments of psycopg's `connect` for an address of the store."""
    given: dict[str, object] = {
        "host": ",".join(address.hosts),
        "user": address.user,
        "password": address.password,
        "dbname": address.database,
        "sslmode": address.tls_mode,
        "connect_timeout": 10,
        # A server that went away without a word is noticed within the lease.
        "keepalives_idle": max(1, int(lease / 3)),
        "keepalives_interval": max(1, int(lease / 6)),
        "keepalives_count": 3,
        "tcp_user_timeout": int(lease * 1000),
        "application_name": "windlass fleet",
        "target_session_attrs": address.session_attrs,
        **address.tls_options,
        **address.driver_options,
    }
    if address.ports is not None:
        given["port"] = ",".join(map(str, address.ports))
    if address.tls_mode in ("verify-ca", "verify-full") and not _has_root_certificate():
        given.setdefault("sslrootcert", "system")
    if not address.is_always_encrypted and psycopg.pq.version() >= _REQUIRES_AUTH:
        given["require_auth"] = "!password"
    settings = {**address.settings, "search_path": search_path}
    given["options"] = " ".join(f"-c {name}={_escape(value)}" for name, value in settings.items())
    return {name: value for name, value in given.items() if value is not None}


def _has_root_certificate() -> bool:
    """Check whether libpq would find certificates that the user has chosen."""
    named = bool(os.environ.get("PGSSLROOTCERT"))
    return named or (Path.home() / ".postgresql" / "root.crt").exists()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
