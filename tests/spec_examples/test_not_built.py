"""Examples of features that are not built yet: a row leaves the table when its name exists."""

from __future__ import annotations

import pytest

import windlass as w

#: The name that the example needs, and which feature it waits for. The table may only shrink.
NOT_BUILT = {
    "agent_await_resumption": "workers",
}
MOST = 1


@pytest.mark.parametrize("name", NOT_BUILT)
def test_feature_of_the_example_is_not_built(name: str):
    """Write the example as a test in this folder, and take the row out of the table."""
    assert not hasattr(w, name), f"{NOT_BUILT[name]} is built: test its examples"


def test_the_table_only_shrinks():
    assert len(NOT_BUILT) <= MOST
