"""The shop on each kind of store."""

from tests.resources.conftest import place

__all__ = ["place"]
