"""The section `[agent]` of `windlass.toml`: defaults for the options of every agent.

Which keys there are, and of which type, the option groups say (`agent_table.py`); their checks are those of
the options. `engine/agent_defaults.py` mixes them with the options of code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_object
from windlass.options.agent_table import AgentTable
from windlass.options.index import ALIASES, NAMES, OF_A_RUN
from windlass.options.parse import find_option

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
