"""The registry of models: all that is configured about providers and models.

Sources, each over the one before: what is shipped, the user's providers file, what
installed packages bring, the project's `[llm]`. A Runtime has a registry of its own; outside of one,
the nearest `windlass.toml` makes it. Nothing is read before the first question.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from windlass.config.loader import Config, load
from windlass.config.sources import Document, read_text
from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject, is_object
from windlass.models.registry.capabilities import (
    DEFAULT_WIRE,
    Capabilities,
    Circle,
    Matrix,
    Table,
    glob_problem,
    load_wire,
    matches,
)
from windlass.models.registry.config import (
    Alias,
    Defaults,
    Endpoint,
    LlmConfig,
    Names,
    Provider,
    Rate,
    installed_documents,
)
from windlass.models.registry.defaults import read_shipped_tables
from windlass.models.registry.scope import RegistryCache, registry_source

TIERS: Final = ("small", "mid", "frontier")
_OF_WIRE: Final = ("also_env", "dialect", "key_word", "chat_endpoint", "completion_endpoint")
LAYOUTS: Final = {"llm": LlmConfig, "capabilities": Table}


class ModelRegistry:
    """Providers, aliases, tiers, inference rules, defaults and prices of one configuration.

    `current_registry().endpoints` is the table of providers.
    """

    def __init__(self, sources: list[Document]) -> None:
        self._sources = sources  # the weakest first, which is what ships
        merged: JsonObject = {}
        for source in sources:
            merged = _over(merged, source.data.get("llm", {}))
        config = msgspec.convert(merged, LlmConfig)
        self.model = config.model  # where nothing else names one
        self.endpoints = {name: self._endpoint(name, p) for name, p in config.providers.items()}
        self.aliases = {
            name: Alias(alias) if isinstance(alias, str) else alias
            for name, alias in config.aliases.items()
        }
        self.tiers, self.inference = config.tiers, config.inference
        self.prices = config.prices
        self._defaults = config.model_defaults
        self._tables = [
            msgspec.convert(source.data["capabilities"], Table)
            for source in reversed(sources[1:])
            if source.data.get("capabilities")
        ]
        self._tables.append(_shipped_rules())  # once for all registries
        self._check()
        self.matrix = self._matrix(())

    def capabilities(self, provider: str, model: str) -> Capabilities:
        """Return the capabilities of a model."""
        return self.matrix.of(provider, model)

    def install(self, table: Table) -> None:
        """Set the rules that come before all others, in place of those set earlier."""
        self.matrix = self._matrix((table,))

    def clear(self) -> None:
        """Remove the installed rules."""
        self.matrix = self._matrix(())

    def defaults(self, provider: str, model: str) -> JsonObject:
        """Return the default options of a model; where rules overlap, the first one wins."""
        found: JsonObject = {}
        for glob, options in self._defaults.items():
            if _names(glob, provider, model):
                found = {**_to_dict(options), **found}
        return found

    def rate(self, provider: str, model: str) -> Rate | None:
        """Return the configured price of a model; a full name wins over a glob."""
        exact = self.prices.get(f"{provider}:{model}") or self.prices.get(model)
        if exact is not None:
            return exact
        return next(
            (rate for glob, rate in self.prices.items() if _names(glob, provider, model)), None
        )

    def home(self, model: str) -> str | None:
        """Return the provider of a bare name by the inference rules."""
        name = model.lower()
        return next((r.provider for r in self.inference if matches(r.match.lower(), name)), None)

    def where(self, *path: str) -> str:
        """Return the file and line that define a setting: `where("llm", "aliases", "fast")`."""
        for source in reversed(self._sources):
            if source.holds(*path):
                return source.where(*path)
        return "the shipped tables"

    # ----------------------------------------------------------------------- how it is made

    def _endpoint(self, name: str, told: Provider) -> Endpoint:
        if told.base_url is None:
            raise ConfigError(
                f"{self.where('llm', 'providers', name)}: llm.providers.{name} needs a base_url, "
                f"such as 'https://llm.example.com/v1'"
                f"{nearest(name, self._sources[0].data['llm']['providers'])}"
            )
        return Endpoint(
            name,
            told.wire or DEFAULT_WIRE,
            told.base_url,
            _to_tuple(told.auth_env),
            _to_tuple(told.base_url_env),
            told.default_model,
            told.model_env,
            told.dialect or "plain",
            {word: _to_tuple(names) for word, names in (told.also_env or {}).items()},
            told.key_word or "api_key",
            told.chat_endpoint or "",
            told.completion_endpoint or "",
            told.auth_style or "",
            told.headers or {},
        )

    def _matrix(self, first: tuple[Table, ...]) -> Matrix:
        rules = [*first, *self._tables]
        known = {*self.endpoints, *(name for table in rules for name in table.provider)}
        for table in rules:
            for name, family in table.provider_family.items():
                if family not in known and family not in table.provider_family:
                    place = (
                        "provider_capabilities_install"
                        if table in first
                        else (self.where("capabilities", "provider_family", name))
                    )
                    wrong = _unknown(family, list(known))
                    raise ConfigError(f"{place}: provider_family.{name}: {wrong}")
        try:
            return Matrix(*rules)
        except Circle as circle:
            place = self.where("capabilities", "provider_family", circle.line[0])
            place = "provider_capabilities_install: " if first else f"{place}: capabilities."
            raise ConfigError(f"{place}{circle}") from None

    def _check(self) -> None:
        for path, problem in self._wrong():
            raise ConfigError(f"{self.where('llm', *path)}: llm.{'.'.join(path)}: {problem}")

    def _wrong(self) -> Iterator[tuple[tuple[str, ...], str]]:
        known = [*self.endpoints, "mock"]
        if self.model is not None and not self.model.strip():
            yield ("model",), "it is empty: name a model, or leave it out"
        yield from self._wrong_names(known)
        for at, rule in enumerate(self.inference):
            if rule.provider not in known:
                yield ("inference", str(at)), _unknown(rule.provider, known)
        for table, globs in (("model_defaults", self._defaults), ("prices", self.prices)):
            for glob in globs:
                provider, colon, rest = glob.partition(":")
                named = colon and provider in known
                if problem := glob_problem(rest if named else glob):
                    yield (table, glob), problem
        for name, endpoint in self.endpoints.items():
            if name == "mock" or not name or set(name) & set(":/ "):
                yield ("providers", name), "that is no name for a provider: take another"
            if endpoint.chat_endpoint and load_wire(endpoint.wire).makes_addresses:
                yield (
                    ("providers", name, "chat_endpoint"),
                    f"the {endpoint.wire} wire makes its addresses itself: leave it out",
                )

    def _wrong_names(self, known: list[str]) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what is wrong with aliases and tiers."""
        for name, alias in self.aliases.items():
            path = ("aliases", name)
            if (
                home := alias.provider or _provider_prefix(alias.id)
            ) is not None and home not in known:
                yield path, _unknown(home, known)
            if name in known:
                yield path, "an alias may not have the name of a provider"
            if not alias.id:
                yield path, "id is empty: name a model"
            if alias.provider is None and alias.id in self.aliases:
                yield path, f"it leads to the alias {alias.id!r}: name its model"
        for name, tier in self.tiers.items():
            if not isinstance(tier, str):
                if name not in known:
                    yield ("tiers", name), _unknown(name, known)
            elif name not in TIERS:
                yield ("tiers", name), f"there is no such tier{nearest(name, TIERS)}"
            elif (home := _provider_prefix(tier)) is not None and home not in known:
                yield ("tiers", name), _unknown(home, known)


def _provider_prefix(model: str) -> str | None:
    """Return the provider that a name begins with."""
    head, colon, _ = model.partition(":")
    return head if colon else None


def _unknown(provider: str, known: list[str]) -> str:
    return (
        f"provider {provider!r} is not known{nearest(provider, known)} "
        f"(or add [llm.providers.{provider}])"
    )


def _over(weaker: JsonObject, stronger: JsonObject) -> JsonObject:
    """Merge two tables key by key; the stronger's rules come first."""
    merged = dict(weaker)
    for key, value in stronger.items():
        below = merged.get(key)
        if key == "inference" and below:
            value = [*value, *below]
        elif key in ("model_defaults", "prices") and below:
            value = {
                **value,
                **{glob: value_below for glob, value_below in below.items() if glob not in value},
            }
        elif is_object(below) and is_object(value):
            value = _over(_without_wire_settings(below, value), value)
        merged[key] = value
    return merged


def _without_wire_settings(weaker: JsonObject, stronger: JsonObject) -> JsonObject:
    """Drop a provider's wire settings where the stronger table changes the wire."""
    if stronger.get("wire", weaker.get("wire")) == weaker.get("wire"):
        return weaker
    return {name: value for name, value in weaker.items() if name not in _OF_WIRE}


def _to_tuple(names: Names | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _to_dict(options: Defaults) -> JsonObject:
    return msgspec.to_builtins(options)


def _names(glob: str, provider: str, model: str) -> bool:
    """Check whether a glob, alone or after `provider:`, matches this model."""
    name = model.lower()
    home, colon, rest = glob.lower().partition(":")
    if colon and home == provider.lower():
        return matches(rest, name)
    return matches(glob.lower(), name)


# --------------------------------------------------------------------------- the current registry

_of_process = RegistryCache()


def current_registry() -> ModelRegistry:
    """Return the registry of the current Runtime, else that of the nearest `windlass.toml`."""
    source = registry_source.get() or _of_process
    found = source.registry if isinstance(source, RegistryCache) else source()
    if isinstance(found, ModelRegistry):
        return found
    made = build_registry(load())
    if isinstance(source, RegistryCache):
        source.registry = made
    return made


def build_registry(config: Config) -> ModelRegistry:
    """Build the registry of a configuration, with the files and packages that it names."""
    return ModelRegistry(
        [read_shipped_tables(), *installed_documents(config, LAYOUTS), config.document(*LAYOUTS)]
    )


@cache
def _shipped_rules() -> Table:
    return msgspec.convert(read_shipped_tables().data["capabilities"], Table)


def capabilities_of(provider: str, model: str) -> Capabilities:
    """Return the capabilities of a model: `capabilities_of("openai", "gpt-5.4").tool_search`."""
    return current_registry().capabilities(provider, model)


def provider_capabilities(provider: str, model: str) -> JsonObject:
    """Return what a model can do, as a dict.

    ```python
    caps = w.provider_capabilities("anthropic", "claude-opus-4-7")
    if "bm25" in caps["tool_search"]: ...
    ```
    """
    return msgspec.json.decode(msgspec.json.encode(capabilities_of(provider, model)))


def provider_capabilities_install(toml_src: str) -> None:
    """Install capability rules before all others, for the current Runtime.

    The text is TOML with `[[provider.<name>]]` and `[provider_family]`.

    ```python
    w.provider_capabilities_install('''
    [[provider.my-proxy]]
    model_match = "*"
    tool_search = ["hosted"]
    ''')
    ```
    They apply to models that are made from now on. Installing again replaces them.
    """
    document = read_text(toml_src, "provider_capabilities_install", Table)
    current_registry().install(msgspec.convert(document.data, Table))


def provider_capabilities_clear() -> None:
    """Remove the installed capability rules; the configured and shipped ones apply again."""
    current_registry().clear()
