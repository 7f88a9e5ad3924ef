"""The shop on each kind of store; on Postgres one door is tried every day, and all of them at length."""

from __future__ import annotations

import pytest

from tests.resources.conftest import place

__all__ = ["place"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most entry points on Postgres as deep: all run the same statements."""
    for item in items:
        if "hostile/authority" in item.nodeid and "[postgres" in item.nodeid:
            if item.nodeid.endswith(("-handle]", "-name]", "-http]")):
                item.add_marker(pytest.mark.deep)
