"""Names of a package that are loaded from its modules when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def load_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Build the `__getattr__` of a package whose names have their homes in these modules."""

    def load(name: str) -> object:
        if name not in homes:
            # Only for who writes something wrong.
            from windlass.foreign_names import build_name_error

            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            raise build_name_error(package, name, homes, frame)
        value = getattr(import_module(f"windlass.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
