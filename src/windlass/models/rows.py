"""One rule of the capability matrix: which models it is about, and what it says of them.

A glob has a star at its ends or one in the middle, and is held against the lower-cased id. Versions
are read from the names that Anthropic and OpenAI give their models.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.models.capabilities import Capabilities

Version = tuple[int, int]

# claude-opus-4-7, claude-3-5-sonnet-20241022, claude-sonnet-4-20250514: a date is no minor version
_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+-)*v?(\d{1,2})(?:[-.:](\d{1,2}))?(?!\d)")
_GPT: Final = re.compile(r"gpt-(?:(35)(?!\d)|(\d{1,2})(?:\.(\d{1,2}))?(?!\d))")  # Azure writes 35


@lru_cache(maxsize=1024)
def version_of(model: str) -> Version | None:
    """Major and minor version: `version_of("us.anthropic.claude-opus-4-1-20250805-v1:0")` is (4, 1).

    None for names of other makers, and for names without a number.
    """
    name = model.lower()
    if found := _CLAUDE.search(name):
        return int(found[1]), int(found[2] or 0)
    if found := _GPT.search(name):
        return (3, 5) if found[1] else (int(found[2]), int(found[3] or 0))
    return None


def glob_problem(glob: str) -> str | None:
    """What is wrong with a glob, in words; None when it is right."""
    inner = glob.strip("*")
    if not glob:
        return "a glob may not be empty: write '*' for every model"
    if "**" in glob or "*" in inner and (inner != glob or inner.count("*") > 1):
        return f"{glob!r} is no glob we know: a star may stand at either end, or once in the middle"
    if odd := next((sign for sign in "?[]" if sign in glob), None):
        return f"{glob!r} is no glob we know: {odd!r} is not special, only '*' is"
    return None


def matches(glob: str, model: str) -> bool:
    """Whether the glob takes this lower-cased id: `matches("claude-*", "claude-opus-4-7")`."""
    head, star, tail = glob.partition("*")
    if not star:
        return model == glob
    if head or not tail.endswith("*"):
        return (
            len(model) >= len(head) + len(tail) and model.startswith(head) and model.endswith(tail)
        )
    return tail[:-1] in model


def _check(rule: Rule) -> None:
    if problem := glob_problem(rule.model_match):
        raise ValueError(problem)


if TYPE_CHECKING:

    class Rule(msgspec.Struct, frozen=True, kw_only=True):
        """One rule, as `capabilities.toml` writes it: the fields of `Capabilities`, or unset."""

        model_match: str
        version_min: Version | None = None

else:  # what a rule may say is what a row of facts holds; what it leaves out stays unsaid
    Rule = msgspec.defstruct(
        "Rule",
        [
            ("model_match", str),
            ("version_min", Version | None, None),
            *(
                (field.name, field.type | msgspec.UnsetType, msgspec.UNSET)
                for field in msgspec.structs.fields(Capabilities)
                if field.name != "known"
            ),
        ],
        namespace={"__post_init__": _check, "__doc__": "One rule of the capability matrix."},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )

#: What one rule says as a whole: these fields come from the first rule that speaks of any of them.
ABILITIES: Final = (
    "native_tools",
    "defer_loading",
    "tool_search",
    "max_tools",
    "prompt_caching",
    "thinking",
)
MANNERS: Final = tuple(
    field.name
    for field in msgspec.structs.fields(Capabilities)
    if field.name not in (*ABILITIES, "known")
)


def applies(rule: Rule, model: str) -> bool:
    """Whether the rule is about this lower-cased id."""
    if not matches(rule.model_match.lower(), model):
        return False
    if rule.version_min is None:
        return True
    version = version_of(model)
    return version is not None and version >= rule.version_min


def abilities(rule: Rule) -> dict[str, Any]:
    """What the rule says of what a model is able to do; empty when it speaks of manners alone."""
    told = {name: getattr(rule, name) for name in ABILITIES}
    return {name: value for name, value in told.items() if value is not msgspec.UNSET}
