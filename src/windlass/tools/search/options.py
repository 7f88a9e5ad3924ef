"""The option `tool_search` in all its forms, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import as_given, is_mapping, is_sequence
from windlass.options.checks import no_key
from windlass.records import NamedFields
from windlass.tools.tool import NAME

Variant: TypeAlias = Literal["bm25", "regex"]
Path: TypeAlias = Literal["auto", "native", "client"]
Strategy: TypeAlias = Literal["bm25", "regex", "semantic", "host"]

SEARCH_NAME = "__windlass_tool_search"


class ToolSearch(msgspec.Struct, metaclass=NamedFields, frozen=True):
    """How deferred tools are found: `tool_search=ToolSearch(variant="regex")`.

    `variant` is what the model searches with: words (`bm25`) or a pattern (`regex`). `mode` says
    who searches: the provider (`native`), Windlass (`client`), or the provider where it can
    (`auto`). `strategy`, `budget_tokens` and `name` work with Windlass's own search only; with one
    of them `auto` means `client`. The strategies `semantic` and `host` call your `search(query,
    tools)`.
    """

    variant: Variant = "bm25"
    mode: Path = "auto"
    strategy: Strategy | None = None  # None: as the variant
    always_loaded: tuple[str, ...] = ()
    budget_tokens: int | None = None
    name: str = SEARCH_NAME
    include_stub_listing: bool = False
    search: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for field, kind in (("variant", Variant), ("mode", Path), ("strategy", Strategy)):
            value = getattr(self, field)
            if value is not None or field != "strategy":
                _one_of(f"tool_search.{field}", value, get_args(kind))
        loaded = _names(self.always_loaded)
        msgspec.structs.force_setattr(self, "always_loaded", loaded)
        budget = as_given(self.budget_tokens)
        if budget is not None and (type(budget) is not int or budget < 1):
            raise ConfigError(
                f"tool_search.budget_tokens is a whole number of at least 1, not {safe_repr(budget)}"
            )
        if type(as_given(self.include_stub_listing)) is not bool:
            raise ConfigError(
                "tool_search.include_stub_listing is True or False, "
                f"not {safe_repr(self.include_stub_listing)}"
            )
        self._check_search()

    def _check_search(self) -> None:
        if not isinstance(as_given(self.name), str) or not NAME.fullmatch(self.name):
            raise ConfigError(
                "tool_search.name is a tool's name, 1 to 128 letters, digits and `_ - . :`, "
                f"not {safe_repr(self.name)}"
            )
        if self.asks_host and self.search is None:
            raise ConfigError(
                f"tool_search.strategy {self.strategy!r} asks you: give tool_search.search, "
                "a function of the query and the tools that returns names"
            )
        if self.search is not None:
            if not callable(as_given(self.search)) or isinstance(self.search, type):
                raise ConfigError(f"tool_search.search is a function, not {safe_repr(self.search)}")
            if not self.asks_host:
                raise ConfigError(
                    "tool_search.search goes with strategy 'semantic' or 'host': say which"
                )

    @property
    def asks_host(self) -> bool:
        """Whether a callback searches."""
        return self.strategy in ("semantic", "host")

    @property
    def way(self) -> Strategy:
        """The strategy of Windlass's own search."""
        return self.strategy or self.variant

    @property
    def wants_client(self) -> str | None:
        """The first option set that only Windlass's own search supports."""
        if self.way != self.variant:
            return f"strategy={self.strategy!r}"
        if self.budget_tokens is not None:
            return f"budget_tokens={self.budget_tokens}"
        return f"name={self.name!r}" if self.name != SEARCH_NAME else None


def as_tool_search(name: str, value: object) -> ToolSearch | None:
    """Convert the option: a bool, a variant, a dict, or the object itself."""
    if value is None or value is False:
        return None
    if value is True:
        return ToolSearch()
    if isinstance(value, ToolSearch):
        return value
    if isinstance(value, str):
        if value in get_args(Strategy) and value not in get_args(Variant):
            raise ConfigError(f'{name}={value!r} needs {{"strategy": {value!r}, "search": …}}')
        return ToolSearch(variant=_one_of(name, value, get_args(Variant)))
    if is_mapping(value):
        fields = value
        for key in fields:
            if not isinstance(key, str) or key not in ToolSearch.__struct_fields__:
                raise no_key(name, key, ToolSearch.__struct_fields__)
        return ToolSearch(**fields)
    raise ConfigError(f"{name} is True, False, 'bm25', 'regex' or a dict, not {safe_repr(value)}")


def _one_of(name: str, value: object, known: tuple[Any, ...]) -> Any:
    if not isinstance(value, str) or value not in known:
        hint = nearest(value, known) if isinstance(value, str) else ""
        raise ConfigError(
            f"{name} is one of {', '.join(map(repr, known))}, not {safe_repr(value)}{hint}"
        )
    return value


def _names(value: object) -> tuple[str, ...]:
    names: Any = value
    if not is_sequence(names) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"tool_search.always_loaded is a list of tools' names, not {safe_repr(value)}"
        )
    return tuple(names)
