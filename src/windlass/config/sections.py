"""Registered sections of `windlass.toml`: a name and the struct that its table must fit."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import msgspec

from windlass.errors import ConfigError

# Windlass's own sections, by name alone: a file must read the same whoever loads it first.
_sections: dict[str, type[msgspec.Struct] | str] = {
    "store": "windlass.store.open:StoreConfig",
    "telemetry": "windlass.observe.telemetry:TelemetryConfig",
    "llm": "windlass.models.registry.config:LlmConfig",
    "capabilities": "windlass.models.registry.capabilities:Table",
    "roles": "windlass.access.roles:RolesConfig",
    "audit": "windlass.audit.anchors:AuditConfig",
    "agent": "windlass.options.agent_config:AgentConfig",
}


def register(name: str, shape: type[msgspec.Struct] | str) -> None:
    """Register the shape of `[name]`: a frozen struct in which every field has a default.

    ```python
    class StoreConfig(msgspec.Struct, frozen=True):
        path: str | None = None

    sections.register("store", StoreConfig)
    ```
    `"package.module:StoreConfig"` is imported only when somebody loads a configuration.
    """
    known = _sections.get(name)
    if known is not None and shape_path(known) != shape_path(shape):
        raise ConfigError(
            f"section {name!r} belongs to {shape_path(known)}, not {shape_path(shape)}"
        )
    if not isinstance(shape, str):
        _must_have_defaults(shape)
    if known is None or isinstance(known, str):
        _sections[name] = shape


def registered_sections() -> dict[str, type[msgspec.Struct] | str]:
    """Return the shape of every section, or the name of its shape."""
    return dict(_sections)


def _must_have_defaults(shape: type[msgspec.Struct]) -> None:
    names, defaults = shape.__struct_fields__, shape.__struct_defaults__
    # the defaults are those of the last fields; to look at field types would take a millisecond
    required = [*names[: len(names) - len(defaults)]]
    for name, default in zip(names[len(required) :], defaults, strict=True):
        if default is msgspec.NODEFAULT:
            required.append(name)
    if required:
        raise ConfigError(f"{shape.__name__}.{required[0]} needs a default to be a section's key")


def resolve_sections(
    sections: Mapping[str, type[msgspec.Struct] | str],
) -> dict[str, type[msgspec.Struct]]:
    """Import the structs that are registered by name."""
    shapes: dict[str, type[msgspec.Struct]] = {}
    for name, shape in list(sections.items()):
        if isinstance(shape, str):
            module, _, attribute = shape.partition(":")
            shape = _as_struct(getattr(importlib.import_module(module), attribute))
            _must_have_defaults(shape)
        shapes[name] = shape
    return shapes


def _as_struct(value: object) -> type[msgspec.Struct]:
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        return value
    raise TypeError(f"{value!r} is not a struct")


def shape_path(shape: type[msgspec.Struct] | str) -> str:
    """Return the module and the name of a section's struct."""
    return shape if isinstance(shape, str) else f"{shape.__module__}:{shape.__qualname__}"
