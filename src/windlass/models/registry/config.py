"""The types of `[llm]` and `[capabilities]` in `windlass.toml`, and of `providers.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgspec

from windlass.config.loader import Config, read_package, user_file
from windlass.config.sources import Document, check_document, read_file, read_text
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject, is_object
from windlass.models.registry.capabilities import Wire, glob_problem, matches
from windlass.models.registry.defaults import (
    read_price_table,
    read_shipped_tables,
    shipped_variables,
    variables_of,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


Names: TypeAlias = str | list[str]
Dialect: TypeAlias = Literal[
    "plain",
    "openai",
    "azure",
    "openrouter",
    "together",
    "groq",
    "deepseek",
    "mistral",
    "ollama",
    "local",
]
Tier: TypeAlias = Literal["small", "mid", "frontier"]


class Endpoint(msgspec.Struct, frozen=True):
    """A provider: its wire, its URL, and its environment variables."""

    name: str
    wire: Wire
    base_url: str
    key_env: tuple[str, ...] = ()  # empty: no key is needed
    base_env: tuple[str, ...] = ()
    default_model: str | None = None
    model_env: str | None = None
    dialect: str = "plain"  # of the OpenAI wire: how it asks for reasoning, what it refuses
    also_env: dict[str, tuple[str, ...]] = {}  # other arguments of the wire: keyword -> variables
    key_word: str = "api_key"  # what the wire calls its key
    chat_endpoint: str = ""  # behind the address; empty: as the wire has it
    completion_endpoint: str = ""
    auth_style: str = ""  # bearer, none, or the name of a header; empty: as the wire has it
    headers: dict[str, str] = {}  # sent with every request

    def address(self, env: Mapping[str, str]) -> str | None:
        """Return the base URL that the environment sets, or None."""
        found = next((value for name in self.base_env if (value := env.get(name))), None)
        if found is None or "://" in found:
            return found
        # OLLAMA_HOST may be just a host, or a host and a port
        host = found.replace("0.0.0.0", "127.0.0.1")
        bare = self.name == "ollama" and ":" not in host
        return f"http://{host}:11434" if bare else f"http://{host}"

    def auth(self, key: str) -> dict[str, str] | None:
        """Build the header that carries the key; None where the wire has its own way."""
        if not self.auth_style or self.auth_style == "sigv4":
            return None
        if self.auth_style == "none":
            return {}
        if self.auth_style == "bearer":
            return {"authorization": f"Bearer {key}"}
        return {self.auth_style.lower(): key}

    @property
    def key_hint(self) -> str:
        """Advice for a missing or wrong key."""
        names = " or ".join(self.key_env) or f"{self.name.upper()}_API_KEY"
        return f"set {names} or pass {self.key_word}="


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[llm.providers.<name>]`: fields left out keep the values of a known provider."""

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
    """`[[llm.inference]]`: the provider of a bare model name, by glob."""

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
    thinking: bool | JsonObject | None = None
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
    """`[llm]`: the model where code names none, providers, aliases, tiers, defaults and prices."""

    model: str | None = None
    providers: dict[str, Provider] = {}
    aliases: dict[str, str | Alias] = {}
    tiers: dict[str, str | dict[Tier, str]] = {}
    inference: list[Inference] = []
    model_defaults: dict[str, Defaults] = {}
    prices: dict[str, Rate] = {}

    @classmethod
    def read_variables(cls, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Yield the settings of `WINDLASS_MODEL` and `WINDLASS_PROVIDER`: key, variable, value."""
        model, provider = environ.get("WINDLASS_MODEL"), environ.get("WINDLASS_PROVIDER")
        if model:
            yield "model", "WINDLASS_MODEL", f"{provider}:{model}" if provider else model
        elif provider:
            yield "model", "WINDLASS_PROVIDER", provider

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Check whether a setting needs the user's trust.

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
        """Yield the settings that even a trusted project may not make: keys of other providers."""
        providers = table.get("providers")
        if not is_object(providers):
            return
        for name, provider in providers.items():
            for variable in sorted(variables_of(provider)):
                owner = shipped_variables().get(variable, name)
                if owner != name and variable not in _variables_of_shipped(name):
                    yield (
                        ("providers", name),
                        f"{variable} holds the key or address of {owner}; a project's provider "
                        "has a variable of its own",
                    )


def _variables_of_shipped(name: str) -> set[str]:
    return variables_of(read_shipped_tables().data["llm"]["providers"].get(name, {}))


def _alias_widens(name: str, value: object, weaker: Mapping[str, Any]) -> bool:
    """Check whether an alias redefines a known name, or uses a provider of the project."""
    ships = read_shipped_tables().data["llm"]
    known = {"mock", *ships["providers"], *weaker.get("providers", {})}
    if name in ships.get("aliases", {}) or name in weaker.get("aliases", {}):
        return True
    if name in get_args(Tier) or name.partition(":")[0] in known or _is_known_model(name, weaker):
        return True
    if is_object(value):
        model, provider = str(value.get("id")), value.get("provider")
    else:
        model, provider = str(value), None
    if provider is None and ":" in model:
        provider = model.partition(":")[0]
    return provider is not None and provider not in known


def _is_known_model(name: str, weaker: Mapping[str, Any]) -> bool:
    """Check whether a name is that of a known model, by a rule or in the catalogue."""
    rules = [*weaker.get("inference", ()), *read_shipped_tables().data["llm"].get("inference", ())]
    if any(matches(rule["match"].lower(), name.lower()) for rule in rules):
        return True
    return name in _catalog_names()


@cache
def _catalog_names() -> frozenset[str]:
    return frozenset(entry["match"][0] for entry in read_price_table()["model"])


# Tables that come from outside the project: the user's providers file, and installed packages.


GROUP: Final = "windlass.providers"
VARIABLE: Final = "WINDLASS_PROVIDERS_CONFIG"
PACKAGES: Final = Path(".windlass", "packages")
MOST_PACKAGES: Final = 100  # a folder can be a download, and every command reads them all

Layouts = Mapping[str, type[msgspec.Struct]]


def installed_documents(config: Config, layouts: Layouts) -> Iterator[Document]:
    """Yield the user's providers file, then those of packages; later ones override."""
    if (path := _providers_file(config)) is not None:
        document = read_file(path, layouts["llm"])
        yield Document({"llm": document.data}, lambda at: document.where(*at[1:]))
    from importlib.metadata import entry_points  # imports the mail modules: only when needed

    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        yield _from_point(point, layouts)
    for path in package_files(config.project.parent if config.project else config.start):
        yield read_package(path, layouts, config)


def package_files(folder: Path) -> list[Path]:
    """List the files that packages put into a project's folder, by name."""
    packages = folder / PACKAGES
    found = list(islice(packages.glob("*/windlass.toml"), MOST_PACKAGES + 1))
    if len(found) > MOST_PACKAGES:
        raise ConfigError(f"{packages}: it holds more than {MOST_PACKAGES} packages")
    return sorted(found)


def _providers_file(config: Config) -> Path | None:
    named = config.environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(f"{VARIABLE}: {path}: there is no such file")
        return path
    home = user_file(config.environ)
    path = home.with_name("providers.toml") if home is not None else None
    return path if path is not None and path.is_file() else None


def _from_point(point: EntryPoint, layouts: Layouts) -> Document:
    """Load what an entry point provides: a table, TOML, a path, or a function for one."""
    owner = point.dist.name if point.dist is not None else point.value
    label = f"entry point {point.name!r} of {owner}"
    try:
        provided: object = point.load()
        provided = provided() if callable(provided) else provided
    except Exception as error:
        raise ConfigError(f"{label}: it cannot be loaded: {error}") from error
    if isinstance(provided, Path):
        return read_file(provided, layouts)
    if isinstance(provided, str):
        return read_text(provided, label, layouts)
    if is_object(provided):
        return check_document(provided, lambda _at: label, layouts)
    raise ConfigError(f"{label}: it gives {safe_repr(provided)}, not a table, TOML or a path")
