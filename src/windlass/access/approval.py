"""Approval rules: the strongest of all that match decides.

Deny beats ask, ask beats allow, and the first among equals is the one on the receipt. What no rule
speaks of is allowed. The guards (`guards.py`) stand before any rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from windlass.access.facts import CallFacts
from windlass.access.guards import find_violation
from windlass.access.match import (
    Sense,
    fits_address,
    fits_command,
    fits_place,
    touches_host,
)
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.globs import match_name
from windlass.json_types import is_mapping, is_sequence
from windlass.options.checks import no_key
from windlass.records import NamedFields

Action: TypeAlias = Literal["allow", "ask", "deny"]
ACTIONS: Final[tuple[Action, ...]] = ("deny", "ask", "allow")  # the strongest first
_STRENGTH = {action: at for at, action in enumerate(reversed(ACTIONS))}
LASTS: Final = 7 * 24 * 3600.0  # seconds that an approval holds by default

#: What a rule may look at, each a glob or a list of globs; `repeat_count` is a number.
FIELDS: Final = (
    "tool",
    "kind",
    "side_effect_level",
    "path",
    "command",
    "url",
    "domain",
    "method",
    "mcp_server",
    "agent",
    "persona",
    "mode",
    "capability",
    "repeat_count",
)


class Rule(msgspec.Struct, metaclass=NamedFields, frozen=True):
    """A rule of an `ApprovalPolicy`: `Rule("ask", {"tool": "refund_*"}, "money is paid out")`.

    `action` is `"allow"`, `"deny"` or `"ask"`. All fields of `match` must match the call; a list
    matches if one of its values does. The text is the reason that people and the record see.
    """

    action: Action
    match: dict[str, tuple[str, ...] | int] = {}
    rationale: str | None = None

    def fits(self, facts: CallFacts, workspace: str) -> bool:
        """Check whether the rule matches this call."""
        return all(
            [_fits(field, wanted, facts, workspace, self) for field, wanted in self.match.items()]
        )

    @property
    def words(self) -> str:
        """The rule as one line of text, for a receipt."""
        about = ", ".join(
            f"{field}={value if isinstance(value, int) else '|'.join(value)}"
            for field, value in self.match.items()
        )
        return f"{self.action}: {about or 'everything'}"


class PolicyDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The receipt of an approval decision: the action, the rule that matched, and its reason."""

    action: Action
    rule: str  # "rule 2 (ask: tool=refund_*)", "guard", "unmatched"
    rationale: str
    index: int | None = None  # of the rule, from 0


class ApprovalPolicy(msgspec.Struct, metaclass=NamedFields, frozen=True, kw_only=True):
    """Approval rules: which tool calls run, which are denied, and which ask a person.

    ```python
    w.agent_loop(task, approval_policy={"rules": [{"deny": "delete_*"}, {"ask": {"kind": "edit"}}]})
    ```
    Deny wins over ask, and ask over allow. A call that no rule matches runs.
    """

    rules: tuple[Rule, ...] = ()
    external_roots: tuple[str, ...] = ()
    workspace: str | None = None  # None: the current folder
    expires_in: float = LASTS
    request_permission: Callable[..., Any] | None = None  # answers at once, or returns None to park
    guards: bool = True

    def decide(self, facts: CallFacts) -> PolicyDecision:
        """Decide about a call, and return the decision with its receipt."""
        workspace = self.root
        if (
            self.guards
            and (why := find_violation(facts, workspace, self.external_roots)) is not None
        ):
            return PolicyDecision("deny", "guard", why)
        best: tuple[int, Rule] | None = None
        for index, rule in enumerate(self.rules):
            stronger = best is None or _STRENGTH[rule.action] > _STRENGTH[best[1].action]
            if stronger and rule.fits(facts, workspace):
                best = index, rule
        if best is None:
            return PolicyDecision("allow", "unmatched", "no rule speaks of this call")
        index, rule = best
        why = rule.rationale or f"it falls under {rule.words}"
        return PolicyDecision(rule.action, f"rule {index} ({rule.words})", why, index)

    @property
    def root(self) -> str:
        """The folder for relative paths."""
        return os.path.realpath(self.workspace or os.getcwd())


def _fits(
    field: str, wanted: tuple[str, ...] | int, facts: CallFacts, workspace: str, rule: Rule
) -> bool:
    if field == "repeat_count":
        return isinstance(wanted, int) and facts.repeats >= wanted
    patterns = cast("tuple[str, ...]", wanted)
    sense: Sense = "allow" if rule.action == "allow" else "deny"
    hits = [
        any([_fits_value(field, pattern, value, workspace, sense) for pattern in patterns])
        for value in _values(field, facts)
    ]
    # what is let through must fit wholly; what is held back need only fit somewhere
    return bool(hits) and (all(hits) if sense == "allow" else any(hits))


def _fits_value(field: str, pattern: str, value: str, workspace: str, sense: Sense) -> bool:
    match field:
        case "path":
            return fits_place(pattern, value, workspace, sense)
        case "command":
            return fits_command(pattern, value, sense)
        case "url":
            return fits_address(pattern, value, sense)
        case "domain":
            return touches_host(pattern, value, sense)
        case _:
            return match_name((pattern,), value)


def _values(field: str, facts: CallFacts) -> Sequence[str]:
    match field:
        case "path":
            return facts.paths
        case "command":
            return facts.commands
        case "url" | "domain":
            return facts.urls
        case "method":
            return facts.methods
        case _:
            value = getattr(facts, field)
            return () if value is None else (value,)


# --------------------------------------------------------------------------- reading a policy


def rule_of(name: str, value: object) -> Rule:
    """Parse a rule: `{"action": …, "match": …}` or `{"deny": "delete_*"}`."""
    if isinstance(value, Rule):
        return Rule(value.action, _match(f"{name}.match", value.match), value.rationale)
    if not is_mapping(value):
        raise ConfigError(f"{name} is a dict such as {{'ask': 'refund_*'}}, not {safe_repr(value)}")
    given = dict(value)
    why = given.pop("rationale", None)
    if why is not None and not isinstance(why, str):
        raise ConfigError(f"{name}.rationale is a text, not {safe_repr(why)}")
    short = [action for action in ACTIONS if action in given]
    if "action" in given:
        if short:
            raise ConfigError(f"{name} says action and {short[0]}: give one of them")
        action, match = given.pop("action"), given.pop("match", {})
        if action not in ACTIONS:
            hint = nearest(action, ACTIONS) if isinstance(action, str) else ""
            raise ConfigError(f"{name}.action is allow, ask or deny, not {safe_repr(action)}{hint}")
    elif len(short) == 1:
        action, match = short[0], given.pop(short[0])
    else:
        raise ConfigError(f"{name} says one of allow, ask and deny, or action and match")
    for stray in given:
        raise no_key(name, stray, ("action", "match", "rationale", *ACTIONS))
    return Rule(cast("Action", action), _match(f"{name}.match", match), why)


def _match(name: str, value: object) -> dict[str, tuple[str, ...] | int]:
    if value is True:
        return {}
    if isinstance(value, str) or is_sequence(value):
        return {"tool": _check_field(name, "tool", value)}
    if not is_mapping(value):
        raise ConfigError(f"{name} is a dict of {', '.join(FIELDS)}, not {safe_repr(value)}")
    read: dict[str, tuple[str, ...] | int] = {}
    for field, wanted in value.items():
        if field not in FIELDS:
            hint = nearest(field, FIELDS) if isinstance(field, str) else ""
            raise ConfigError(f"{name} has no field {safe_repr(field)}{hint}")
        read[field] = _check_field(f"{name}.{field}", field, wanted)
    return read


def _check_field(name: str, field: str, value: object) -> tuple[str, ...] | int:
    if field == "repeat_count":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} is a whole number of at least 1, not {safe_repr(value)}")
        return value
    several = (value,) if isinstance(value, str) else value
    if not is_sequence(several) or not several:
        raise ConfigError(f"{name} is a glob or a list of globs, not {safe_repr(value)}")
    globs: list[str] = []
    for one in several:
        if not isinstance(one, str) or not one:
            raise ConfigError(f"{name} is a glob or a list of globs, not {safe_repr(one)}")
        globs.append(
            one.upper() if field == "method" else one.lower() if field == "domain" else one
        )
    return tuple(globs)
