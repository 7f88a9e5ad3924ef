"""Which rules are about a model, and what they say: `capabilities_of("anthropic", "claude-opus-4-7")`.

For a provider and a model there is a list of rules: the provider's own, then those of the model's
vendor where a router or a cloud serves it, then those of the provider's family.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from windlass.errors import ConfigError
from windlass.models.capabilities import Capabilities
from windlass.models.rows import MANNERS, Rule, abilities, applies

# how routers spell the vendors that we know under another name
_VENDORS: Final = {"google": "gemini", "mistralai": "mistral", "deepseek-ai": "deepseek"}


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of rules: `[[provider.<name>]]` and `[provider_family]`."""

    provider: dict[str, list[Rule]] = {}
    provider_family: dict[str, str] = {}


class Matrix:
    """Rules of several tables, the strongest first."""

    def __init__(self, *tables: Table) -> None:
        self._tables = [table.provider for table in tables]
        self._named = {name for table in tables for name in table.provider}
        self._family: dict[str, str] = {}
        for table in reversed(tables):
            self._family.update(table.provider_family)
        check_families(self._family)
        self._found: dict[tuple[str, str], Capabilities] = {}

    def of(self, provider: str, model: str) -> Capabilities:
        """The row of facts for a model."""
        key = provider, model
        if (found := self._found.get(key)) is None:
            found = self._found[key] = self._make(provider, model.lower())
        return found

    def _make(self, provider: str, model: str) -> Capabilities:
        facts: dict[str, Any] = {}
        missing = set(MANNERS)
        for name, rule in self._about(provider, model):
            if "known" not in facts and (able := abilities(rule)):
                facts.update(able, known=True)
            for field in tuple(missing):
                said = getattr(rule, field)
                # a model that one provider serves in one way only is served by others in theirs
                if said is not msgspec.UNSET and (field != "wire" or name == provider):
                    facts[field] = said
                    missing.discard(field)
        if "known" in facts and not facts.get("thinking"):
            facts |= {"thinking_modes": (), "reasoning_effort_supported": False, "efforts": ()}
        return Capabilities(**facts)

    def _about(self, provider: str, model: str) -> Iterator[tuple[str, Rule]]:
        """The rules that count: of each table the first about abilities, and those about manners.

        What stands below the first is about other models, however well its glob fits.
        """
        for name, id in self._places(provider, model):
            for table in self._tables:
                able = False
                for rule in table.get(name, ()):
                    if applies(rule, id) and not (able and abilities(rule)):
                        able = able or bool(abilities(rule))
                        yield name, rule

    def _places(self, provider: str, model: str) -> Iterator[tuple[str, str]]:
        """Whose rules count, and under which id they know the model."""
        line = [provider]
        while (family := self._family.get(line[-1])) is not None:
            line.append(family)
        yield provider, model
        if vendor := self._vendor(provider, model):
            yield vendor
        bare = model.rpartition("/")[2]
        for family in line[1:]:
            yield family, model
            if bare != model:
                yield family, bare

    def _vendor(self, provider: str, model: str) -> tuple[str, str] | None:
        """The maker's name and its id, out of `vendor/name` or Amazon's `us.vendor.name`."""
        vendor, slash, name = model.partition("/")
        vendor = _VENDORS.get(vendor, vendor)
        if slash and vendor in self._named and vendor != provider:
            # a router writes claude-opus-4.7 for claude-opus-4-7
            return vendor, name.replace(".", "-") if vendor == "anthropic" else name
        if provider == "bedrock":
            dotted = model.rpartition("/")[2].split(".")  # an ARN ends in the name
            for at, vendor in enumerate(dotted[:2]):
                if vendor in self._named and vendor != provider:
                    return vendor, ".".join(dotted[at + 1 :])
        return None


def check_families(family: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a family that leads back to where it began."""
    for name in family:
        line = [name]
        while (above := family.get(line[-1])) is not None:
            if above in line:
                circle = " -> ".join([*line[line.index(above) :], above])
                raise ConfigError(f"provider_family goes in a circle: {circle}")
            line.append(above)


@cache
def shipped() -> Table:
    """The rules of `capabilities.toml`."""
    text = files("windlass.models").joinpath("capabilities.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Table)


@cache
def _matrix() -> Matrix:
    return Matrix(shipped())


def capabilities_of(provider: str, model: str) -> Capabilities:
    """What is known of the model: `capabilities_of("openai", "gpt-5.4").tool_search`."""
    return _matrix().of(provider, model)
