"""The shapes of `[llm]` and `[capabilities]` in `windlass.toml`, and of `providers.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from windlass.models.capabilities import Wire
from windlass.models.rows import glob_problem, matches
from windlass.models.shipped import shipped, shipped_variables, variables_of

Names: TypeAlias = str | list[str]
Dialect: TypeAlias = Literal[
    "plain", "openai", "azure", "openrouter", "together", "groq", "deepseek", "mistral", "ollama",
    "local",
]  # fmt: skip
Tier: TypeAlias = Literal["small", "mid", "frontier"]


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[llm.providers.<name>]`: what is left out of a known provider stays as it is."""

    base_url: str | None = None
    wire: Wire | None = None
    chat_endpoint: str | None = None
    completion_endpoint: str | None = None
    auth_style: str | None = None
    auth_env: Names | None = None
    base_url_env: Names | None = None
    default_model: str | None = None
    model_env: str | None = None
    headers: dict[str, str] | None = None
    dialect: Dialect | None = None
    also_env: dict[str, Names] | None = None
    key_word: str | None = None

    def __post_init__(self) -> None:
        for path in (self.chat_endpoint, self.completion_endpoint):
            if path and not path.startswith("/"):
                raise ValueError(f"{path!r} is behind base_url: begin it with '/'")
        if self.base_url and "://" not in self.base_url:
            raise ValueError(f"base_url {self.base_url!r} is no address: begin it with 'https://'")
        style = self.auth_style
        if style is not None and not style.replace("-", "").replace("_", "").isalnum():
            raise ValueError(
                f"auth_style {style!r} is neither 'bearer', 'none' nor the name of a header"
            )


class Alias(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`my-fast = { id = "vendor/model-fast", provider = "my_proxy" }`"""

    id: str
    provider: str | None = None


class Inference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[llm.inference]]`: whose a model is by its name."""

    match: str
    provider: str

    def __post_init__(self) -> None:
        if problem := glob_problem(self.match):
            raise ValueError(problem)


class Defaults(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[llm.model_defaults."<glob>"]`: options of a call that names none."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    thinking: bool | dict[str, Any] | None = None
    reasoning_effort: str | None = None
    reasoning_policy: str | bool | None = None
    cache: bool | None = None
    stream: bool | None = None
    timeout: float | None = None
    parallel_tool_calls: bool | None = None


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[llm.prices."<provider>:<glob>"]`: dollars per million tokens, and per second of a GPU."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    gpu_second: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} is {value}: a price is 0 or more")


class LlmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[llm]`: providers, aliases, tiers, whose a name is, defaults and prices."""

    providers: dict[str, Provider] = {}
    aliases: dict[str, str | Alias] = {}
    tiers: dict[str, str | dict[Tier, str]] = {}
    inference: list[Inference] = []
    model_defaults: dict[str, Defaults] = {}
    prices: dict[str, Rate] = {}

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Does the setting need the user's trust?

        Where requests go and what authenticates them does, and whatever changes what a known name
        or a price means. A new alias and defaults of models do not.
        """
        match path:
            case ("aliases", name):
                return _alias_widens(name, value, weaker)
            case ("aliases" | "model_defaults", *_) | ("providers", _, "default_model"):
                return False
            case _:
                return not isinstance(value, dict)

    @classmethod
    def project_problems(cls, table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
        """What even a trusted file of a project may not say: whose keys its providers take."""
        providers = table.get("providers")
        if not isinstance(providers, dict):
            return
        for name, provider in cast("dict[str, Any]", providers).items():
            for variable in sorted(variables_of(provider)):
                owner = shipped_variables().get(variable, name)
                if owner != name and variable not in _variables_of_shipped(name):
                    yield (
                        ("providers", name),
                        f"{variable} holds the key or address of {owner}; a project's provider "
                        "has a variable of its own",
                    )


def _variables_of_shipped(name: str) -> set[str]:
    return variables_of(shipped().data["llm"]["providers"].get(name, {}))


def _alias_widens(name: str, value: object, weaker: Mapping[str, Any]) -> bool:
    """Does the name mean something already, or is it for a provider that only the project knows?"""
    ships = shipped().data["llm"]
    known = {"mock", *ships["providers"], *weaker.get("providers", {})}
    if name in ships.get("aliases", {}) or name in weaker.get("aliases", {}):
        return True
    if name in get_args(Tier) or name.partition(":")[0] in known or _is_known_model(name, weaker):
        return True
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        model, provider = str(table.get("id")), table.get("provider")
    else:
        model, provider = str(value), None
    if provider is None and ":" in model:
        provider = model.partition(":")[0]
    return provider is not None and provider not in known


def _is_known_model(name: str, weaker: Mapping[str, Any]) -> bool:
    """Is it the name of a model: by a rule of ours or of the user's, or in the catalog?"""
    rules = [*weaker.get("inference", ()), *shipped().data["llm"].get("inference", ())]
    if any(matches(rule["match"].lower(), name.lower()) for rule in rules):
        return True
    return name in _catalog_names()


@cache
def _catalog_names() -> frozenset[str]:
    from windlass.models.catalog import models  # it reads this file's tables itself

    return frozenset(model.name for listed in models().values() for model in listed)
