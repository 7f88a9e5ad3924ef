"""The providers there are: those that Windlass ships with, and those that are configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from windlass.models.registry.capabilities import Wire as Wire
from windlass.models.registry.endpoint import Endpoint as Endpoint


def _known() -> Mapping[str, Endpoint]:
    from windlass.models.registry.registry import (
        current,  # an agent whose model is an object needs no tables
    )

    return current().endpoints


class _Endpoints(Mapping[str, Endpoint]):
    """The providers of the current configuration, by name; nothing is read before it is asked."""

    def __getitem__(self, name: str) -> Endpoint:
        return _known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_known())

    def __len__(self) -> int:
        return len(_known())


ENDPOINTS: Final[Mapping[str, Endpoint]] = _Endpoints()
