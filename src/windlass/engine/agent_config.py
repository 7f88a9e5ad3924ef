"""The section `[agent]` of `windlass.toml`: defaults for the options of every agent.

Which keys there are, and of which type, the option groups say (`options/agent_table.py`); their checks are
those of the options. Code has the last word: an option that it gives counts, and so does a profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from windlass.config.loader import Config
from windlass.engine.limit_options import PROFILES, LimitOptions
from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_object
from windlass.loop.ledger import Limits
from windlass.options.agent_table import AgentTable
from windlass.options.group import Values
from windlass.options.index import ALIASES, CHOICES, NAMES, OF_A_RUN
from windlass.options.parse import find_option, parse_options

SECTION: Final = "agent"
_UNKNOWN_KEY: Final = re.compile(r"(\S+) has no key '([^']*)'")


class AgentConfig(AgentTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults of agents: `[agent]` in `windlass.toml`."""

    @classmethod
    def widens(cls, path: tuple[str, ...], value: object, weaker: Mapping[str, Any]) -> bool:
        """Check whether a setting needs the user's trust: each says what agents do and spend."""
        return True

    @classmethod
    def value_problems(cls, table: JsonObject) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what the checks of the options say against values, and the keys that are meant."""
        for name, value in table.items():
            label = f"{SECTION}.{name}"
            try:
                find_option(ALIASES.get(name, name)).check(label, value)
            except ConfigError as error:
                words = str(error) if str(error).startswith(label) else f"{label}: {error}"
                yield _find_path(words, table), words

    @classmethod
    def explain_key(cls, key: str) -> str:
        """Say why an option is no key of the table."""
        own = ALIASES.get(key, key)
        if own in OF_A_RUN:
            return "; it belongs to one run"
        for name in cls.__struct_fields__:
            if ALIASES.get(name, name) == own:
                return f"; use {name!r}"
        is_option = any(key in names for names in NAMES.values())
        return "; it is given in code" if is_option else ""


def _find_path(words: str, table: JsonObject) -> tuple[str, ...]:
    """Find the keys that an error is about; it begins with them: `agent.budget.usd is …`."""
    match = _UNKNOWN_KEY.match(words)
    dotted = f"{match[1]}.{match[2]}" if match is not None else words.partition(" ")[0].rstrip(":")
    path: list[str] = []
    inside: object = table
    for key in dotted.split(".")[1:]:
        if not is_object(inside) or key not in inside:
            break
        path.append(key)
        inside = inside[key]
    return tuple(path)


def read_agent_options(config: Config) -> Values:
    """Return the options that `[agent]` gives, checked, under their own names."""
    if not config.document(SECTION).data[SECTION]:
        return {}
    table = config.get(AgentConfig)
    given = {name: getattr(table, name) for name in table.__struct_fields__}
    given = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    return parse_options(given, "agent", f"[{SECTION}]")


def with_agent_options(options: JsonObject, defaults: Values) -> JsonObject:
    """Return options of code, and below them the defaults that do not contradict them."""
    decided = {CHOICES[name] for name in options if name in CHOICES}
    usual = {name: value for name, value in defaults.items() if CHOICES.get(name) not in decided}
    profile = LimitOptions.read(options).profile
    if profile is not None:
        usual = {name: value for name, value in usual.items() if name not in PROFILES[profile]}
    limits = _merge_limits(options, usual)
    return {**usual, **options, **limits}


def _merge_limits(options: JsonObject, usual: JsonObject) -> JsonObject:
    """Merge limits one by one: those of code count, and of the others none is lost.

    What says the same by another name is taken out of the defaults.
    """
    given, below = LimitOptions.read(options), LimitOptions.read(usual)
    limits = below.limits
    if given.turns() is not None:
        usual.pop("max_iterations", None)
        limits = msgspec.structs.replace(limits, iterations=None)
    if given.tokens() is not None:
        usual.pop("token_budget", None)
        limits = msgspec.structs.replace(limits, tokens=None)
    if below.budget is None:
        return {}
    mine = {name: getattr(given.limits, name) for name in Limits.__struct_fields__}
    mine = {name: value for name, value in mine.items() if value is not None}
    return {"budget": msgspec.structs.replace(limits, **mine)}
