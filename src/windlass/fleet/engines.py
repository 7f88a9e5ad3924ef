"""Engines by name: `Runtime(store="postgresql://…", fleet="procrastinate")`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.fleet.engine import Fleet, Sweep
from windlass.fleet.local import LocalFleet
from windlass.store.base import Store

#: What builds an engine: `build(store, sweep, lease)`. Third parties name theirs in this group.
BuildEngine: TypeAlias = Callable[[Store, "Sweep | None", float], Fleet]
GROUP: Final = "windlass.fleets"
_OWN: Final = {  # module, class, and the package that it needs
    "procrastinate": ("windlass.fleet.procrastinate", "ProcrastinateFleet", "procrastinate"),
    "pgqueuer": ("windlass.fleet.pgqueuer", "PgQueuerFleet", "pgqueuer"),
}
ENGINES: Final = ("local", *_OWN)


def build_engine(name: str, store: Store, sweep: Sweep | None, lease: float) -> Fleet:
    """Build the engine of a name over a store; raise `ConfigError` if it cannot be had here."""
    if name == "local":
        return LocalFleet(store, sweep)
    return _find_builder(name)(store, sweep, lease)


def check_engine(name: object) -> str:
    """Return the name of an engine; raise `ConfigError` for one that nobody offers."""
    if isinstance(name, str) and (name in ENGINES or _find_foreign(name) is not None):
        return name
    raise ConfigError(f"fleet {safe_repr(name)} is no engine{nearest(str(name), ENGINES)}")


def _find_builder(name: str) -> BuildEngine:
    own = _OWN.get(name)
    if own is None:
        found = _find_foreign(name)
        assert found is not None  # checked before
        return found
    module, kind, package = own
    try:
        return cast("BuildEngine", getattr(importlib.import_module(module), kind))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extra = "windlass[fleet]" if name == "procrastinate" else package
        raise ConfigError(
            f"fleet={name!r} needs the package {package}: pip install '{extra}'"
        ) from None


def _find_foreign(name: str) -> BuildEngine | None:
    from importlib.metadata import entry_points  # imports the mail modules: only when needed

    for point in entry_points(group=GROUP, name=name):
        return cast("BuildEngine", point.load())
    return None
