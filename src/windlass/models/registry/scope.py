"""The registry, the providers and the environment variables of this context."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from windlass.models.registry.config import Endpoint


class RegistryCache:
    """The registry of the nearest `windlass.toml`, built when it is needed."""

    registry: object = None


#: What gives the registry of this context; None: the one of the process. It is typed as an object
#: because a run whose model is an object never loads `registry.py`.
registry_source: ContextVar[RegistryCache | Callable[[], object] | None] = ContextVar(
    "windlass_registry", default=None
)

#: The variables that a Runtime was given; None: those of the process.
current_environ: ContextVar[Mapping[str, str] | None] = ContextVar("windlass_environ", default=None)


def environ() -> Mapping[str, str]:
    """Return the variables of this context: for keys, addresses and proxies."""
    given = current_environ.get()
    return os.environ if given is None else given


@contextmanager
def reload_config() -> Generator[None]:
    """Read the configuration again within the block, for the current folder."""
    token = registry_source.set(RegistryCache())
    try:
        yield
    finally:
        registry_source.reset(token)


def _known_endpoints() -> Mapping[str, Endpoint]:
    # Loaded by name: an agent whose model is an object needs no tables.
    registry = import_module("windlass.models.registry.registry")
    return registry.current_registry().endpoints


class _Endpoints(Mapping[str, "Endpoint"]):
    """Providers of the current registry by name; nothing is read before the first lookup."""

    def __getitem__(self, name: str) -> Endpoint:
        return _known_endpoints()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_known_endpoints())

    def __len__(self) -> int:
        return len(_known_endpoints())


ENDPOINTS: Final[Mapping[str, Endpoint]] = _Endpoints()
