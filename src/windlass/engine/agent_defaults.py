"""Defaults of agents from `[agent]` in `windlass.toml`, below the options of code.

Code has the last word: an option that it gives counts, and so does a profile.
"""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.config.loader import Config
from windlass.engine.limit_options import PROFILES, LimitOptions
from windlass.json_types import JsonObject
from windlass.loop.ledger import Budget
from windlass.options.agent_config import SECTION, AgentConfig
from windlass.options.group import Values
from windlass.options.index import CHOICES
from windlass.options.parse import parse_options

_ENVIRONMENT: Final = "environment "


def read_agent_options(config: Config) -> Values:
    """Return the options that `[agent]` gives, checked, under their own names."""
    if not config.document(SECTION).data[SECTION]:
        return {}
    table = config.get(AgentConfig)
    given = {name: getattr(table, name) for name in table.__struct_fields__}
    given = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    for name in find_overridden(config):
        del given[name]
    return parse_options(given, "agent", f"[{SECTION}]")


def find_overridden(config: Config) -> dict[str, str]:
    """Return the keys of `[agent]` in files that a variable replaces, and the variables.

    The environment is stronger than a file also where its variable is not named after the section.
    """
    table = config.document(SECTION).data[SECTION]
    replaced: dict[str, str] = {}
    model = config.origin("llm", "model")
    if model.startswith(_ENVIRONMENT):
        variable = model.removeprefix(_ENVIRONMENT)
        replaced |= dict.fromkeys(("model", "provider", "model_tier"), variable)
    if config.environ.get("WINDLASS_LLM_STREAM"):
        replaced["stream"] = "WINDLASS_LLM_STREAM"
    return {
        name: variable
        for name, variable in replaced.items()
        if name in table and not config.origin(SECTION, name).startswith(_ENVIRONMENT)
    }


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
    mine = {name: getattr(given.limits, name) for name in Budget.__struct_fields__}
    mine = {name: value for name, value in mine.items() if value is not None}
    return {"budget": msgspec.structs.replace(limits, **mine)}
