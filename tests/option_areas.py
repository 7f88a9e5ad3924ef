"""The options by area: what the walks over names and the hostile pools must cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.options.index import ALIASES, GROUPS, NAMES
from windlass.options.parse import find_option


def names_in(*homes: str) -> frozenset[str]:
    """Return the options and aliases that modules of these packages declare."""
    own = {
        name
        for name, group in GROUPS.items()
        if any(f"{group.partition(':')[0]}.".startswith(f"{home}.") for home in homes)
    }
    return frozenset(own | {alias for alias, name in ALIASES.items() if name in own})


#: What decides what the model sees.
CONTEXT = names_in(
    *(
        f"policies.{name}"
        for name in (
            "compaction projection context_callback decorators scratchpad skills tool_narrowing "
            "prompt_overrides reminders context_strategy"
        ).split()
    )
)
#: What decides what an agent may do.
AUTHORITY = names_in(
    "policies.authority.permissions",
    "policies.authority.approval",
    "policies.taint",
    "policies.preview",
    "toolbox",
)
#: What decides whether a run goes on, and how its calls run.
JUDGEMENT = (
    names_in(
        "policies.judges",
        "policies.stall",
        "policies.native_tools",
        "policies.post_turn",
        "policies.turn_limit",
        "policies.progress",
        "engine.tool_layers",
        "observe.transcript_file",
    )
    | {"turn_policy", "stop_after_successful_tools", "require_successful_tools"}
    | {"profile", "schema_retries"}
)
LOOP = NAMES["loop"] | {"system"}
AGENT = NAMES["agent"] | {"system"}
CALL = NAMES["call"] | {"system"}


class Checks(Mapping[str, Any]):
    """The check of each option, by name."""

    def __getitem__(self, name: str) -> Any:
        return find_option(ALIASES.get(name, name)).check

    def __iter__(self) -> Iterator[str]:
        return iter([*GROUPS, *ALIASES])

    def __len__(self) -> int:
        return len(GROUPS) + len(ALIASES)


CHECKS = Checks()
