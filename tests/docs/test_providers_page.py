"""The tables of docs/reference/providers.md are what the data has."""

from __future__ import annotations

import re
from typing import get_args

from tests.docs.test_truth import page, table
from windlass.models.registry.capabilities import ABILITIES, MANNERS, Capabilities, Wire
from windlass.models.registry.config import (
    Defaults,
    Dialect,
    Provider,
    Rate,
)
from windlass.models.registry.scope import ENDPOINTS, reload_config


def test_every_provider_with_its_default_key_and_address() -> None:
    rows = table("providers", "")
    with reload_config():
        assert set(rows) == {*ENDPOINTS, "mock"} | {n for n in rows if n.isupper()}
        for name, endpoint in ENDPOINTS.items():
            default, key, address = rows[name]
            assert key == " or ".join(f"`{each}`" for each in endpoint.key_env) or key == "none"
            assert bool(endpoint.key_env) is (key != "none")
            if endpoint.base_url:
                assert address == f"`{endpoint.base_url}`"
            assert (endpoint.default_model or "") in default
            assert endpoint.model_env is None or endpoint.model_env in default
            known = endpoint.default_model or endpoint.model_env
            assert known or default == "name one"


def test_every_field_is_told() -> None:
    assert set(table("providers", "### A provider")) == set(Provider.__struct_fields__)
    able = table("providers", "## What a model can do")
    assert set(able) == set(ABILITIES)
    told = set(re.findall(r"^\| `(\w+)` \|", page("providers"), re.M))
    assert set(MANNERS) <= told and set(Capabilities.__struct_fields__) - {"known"} <= told
    words = set(re.findall(r"`(\w+)`", page("providers")))
    for names in (
        Defaults.__struct_fields__,
        Rate.__struct_fields__,
        get_args(Wire),
        get_args(Dialect),
    ):
        assert set(names) <= words
