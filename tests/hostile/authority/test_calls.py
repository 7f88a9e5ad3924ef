"""Every family of hostile calls, through every door, on every store: no byte of another tenant's."""

from __future__ import annotations

import json

import pytest

from tests.hostile.authority.families import FAMILIES
from tests.hostile.authority.shop import (
    DOORS,
    SECRET,
    acme,
    logged,
    shop,
)

CELLS = [(name, door) for name, family in FAMILIES.items() for door in family.doors]


@pytest.mark.parametrize(("name", "door"), CELLS)
async def test_no_byte_and_no_row_of_another_tenant(place: str, name: str, door: str):
    family = FAMILIES[name]
    async with shop(place) as scope:
        calls = await family.calls(scope) if callable(family.calls) else family.calls
        before = await acme(scope)
        for tool, arguments in calls:
            try:
                seen = await DOORS[door](scope, tool, arguments)
            except (TypeError, RecursionError) as error:
                if door != "handle" or isinstance(error, RecursionError):
                    raise
                continue  # Python's own no to a keyword or an argument
            assert SECRET not in seen, (tool, arguments)
            assert "Traceback" not in seen and "sqlite" not in seen and "syntax" not in seen.lower()
        assert await acme(scope) == before
        await logged(scope)
        honest = await DOORS[door](scope, "search_item", {"where": {"name": "plain"}, "limit": 1})
        assert "plain" in honest  # who asks for what is theirs is answered


@pytest.mark.parametrize("name", FAMILIES)
async def test_the_attack_succeeds_where_the_defence_is_off(
    place: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    async with shop(place) as scope:
        assert await FAMILIES[name].control(scope, monkeypatch)


def test_the_calls_are_what_a_model_can_write():
    for name, family in FAMILIES.items():
        if not callable(family.calls) and "without end" not in name:
            json.dumps([arguments for _, arguments in family.calls])
