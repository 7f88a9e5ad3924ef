"""The tables that Windlass ships with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from windlass.config.sources import Document, parse
from windlass.errors import ConfigError
from windlass.json_types import JsonObject


@cache
def read_shipped_tables() -> Document:
    """Read `providers.toml` and `capabilities.toml` of this package; tests have checked them."""
    tables = {"llm": _read("providers.toml"), "capabilities": _read("capabilities.toml")}
    return Document(tables, lambda _path: "the shipped tables")


@cache
def read_price_table() -> JsonObject:
    """Read `prices.toml` of this package."""
    return _read("prices.toml")


def _read(file: str) -> JsonObject:
    # `importlib.resources` takes 5 ms to import, which the first agent of a process would pay.
    tables, problem = parse(Path(__file__).with_name(file).read_text("utf-8"), file)
    if problem:
        raise ConfigError(problem)
    return tables


@cache
def shipped_variables() -> dict[str, str]:
    """Return the environment variables of shipped providers, each with its provider."""
    found: dict[str, str] = {}
    providers: JsonObject = read_shipped_tables().data["llm"]["providers"]
    for name, provider in providers.items():
        for variable in variables_of(provider):
            found.setdefault(variable, name)
    return found


def variables_of(provider: JsonObject) -> set[str]:
    """Return the environment variables that a provider's table names."""
    named: list[Any] = [provider.get(key) for key in ("auth_env", "base_url_env", "model_env")]
    named += (provider.get("also_env") or {}).values()
    return {
        variable
        for each in named
        for variable in ((each,) if isinstance(each, str) else each or ())
    }
