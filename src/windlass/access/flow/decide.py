"""The rule: which calls with effects run unasked once untrusted content is in the context."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from windlass.access.facts import kind_of_argument, strings
from windlass.access.flow.call_values import TRUSTED, Known, Origin, find_origin, iterate_leaves
from windlass.access.flow.content import check_content, is_prose
from windlass.access.flow.intent import check_intent
from windlass.access.flow.roles import Role
from windlass.access.flow.tokens import fold, tokenize
from windlass.errors import safe_repr

_MOST_VALUES: Final = 500  # of a call; nobody names more of them
_MOST_LOOKUPS: Final = 50  # records that a sub-agent's answer hands on
_MOST_WORDS: Final = 200  # of such a record
Target: TypeAlias = tuple[str, str, str]  # tool, argument, value


class Value(NamedTuple):
    """A value of a call: where it stands, what it does there, and where it comes from."""

    argument: str
    role: Role
    value: str
    origin: Origin
    source: str = ""  # the tool that gave it


class Decision(NamedTuple):
    """Whether a call runs unasked, each of its values, and the reasons to ask."""

    values: tuple[Value, ...]
    reasons: tuple[str, ...]
    is_refused: bool = False  # somebody said never

    @property
    def asks(self) -> bool:
        """Whether somebody must say yes."""
        return bool(self.reasons)


def decide_call(
    tool: str,
    parameters: Mapping[str, Any],
    annotations: Mapping[str, Any],
    arguments: Mapping[str, Any],
    known: Known,
    *,
    allowed: Collection[Target] = (),
    refused: Collection[Target] = (),
) -> Decision:
    """Decide about a call with effects, untrusted content being in the context.

    `allowed` and `refused` are the targets that somebody decided on for the rest of the session.
    """
    leaves = list(iterate_leaves(parameters, annotations, arguments))
    if len(leaves) > _MOST_VALUES:
        return Decision((), (f"it has more than {_MOST_VALUES} values",))
    writes_file = any(
        [
            kind_of_argument(name, annotations) == "path" and not is_prose(str(path))
            for name, path in arguments.items()
        ]
    )
    values: list[Value] = []
    reasons: list[str] = []
    for leaf in leaves:
        target = (tool, leaf.path, fold(str(leaf.value)))
        if leaf.role == "target" and target in refused:
            never = f"somebody said never to {leaf.path} = {safe_repr(leaf.value, 80)}"
            return Decision(tuple(values), (never,), True)
        origin, source = find_origin(leaf, tool, known)
        if leaf.role == "target" and origin not in TRUSTED and target in allowed:
            origin, source = "approved", ""
        value = Value(leaf.path, leaf.role, safe_repr(leaf.value, 80), origin, source)
        values.append(value)
        if leaf.role == "content":
            reasons += check_content(leaf, known, writes_file=writes_file)
        elif origin not in TRUSTED:
            reasons.append(_tell(value))
    targets = [(tool, leaf.path, fold(str(leaf.value))) for leaf in leaves if leaf.role == "target"]
    if not targets or any([target not in allowed for target in targets]):
        # whoever allowed all targets has asked for the action too
        reasons += check_intent(tool, parameters, arguments, leaves, known.user)
    return Decision(tuple(values), tuple(dict.fromkeys(reasons)))


def is_lookup_named(
    tool: str,
    parameters: Mapping[str, Any],
    annotations: Mapping[str, Any],
    arguments: Mapping[str, Any],
    known: Known,
) -> bool:
    """Return whether the user named what a call looks up: all that it is asked for is of trusted origin."""
    leaves = list(iterate_leaves(parameters, annotations, arguments))
    return bool(leaves) and all(
        [find_origin(leaf._replace(role="stake"), tool, known)[0] in TRUSTED for leaf in leaves]
    )


def _tell(value: Value) -> str:
    what = "target" if value.role == "target" else "what is at stake"
    whence = {
        "untrusted": f"from untrusted content ({value.source})",
        "private": f"from {value.source}, in a record that the user did not name",
        "unnamed": f"from {value.source}, in a record that the user did not name",
    }.get(value.origin, "from nothing that the user said")
    return f"{what} {value.argument} = {value.value} comes {whence}"


def decide_read(
    annotations: Mapping[str, Any], arguments: Mapping[str, Any], known: Known
) -> Decision:
    """Decide about a call without effects: an address put together here carries something out."""
    reasons: list[str] = []
    for name, given in arguments.items():
        if kind_of_argument(name, annotations) == "url":
            for value in strings(given):
                reasons += _check_address(value, known)
    return Decision((), tuple(reasons))


def _check_address(address: str, known: Known) -> Iterator[str]:
    if known.user.says(address) or known.host.says(address):
        return
    given = list(known.records.find(address))
    if any([record.trust == "trusted" for record in given]):
        return
    if not given:
        yield f"nobody gave the address {safe_repr(address, 80)}: it may carry data out"
    elif "?" in address or "@" in address:
        yield f"the address {safe_repr(address, 80)} of {given[0].tool} carries data out"


def named_targets(
    tool: str,
    parameters: Mapping[str, Any],
    annotations: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> list[Target]:
    """Return the targets of a call, as an answer for the rest of the session remembers them."""
    return [
        (tool, leaf.path, fold(str(leaf.value)))
        for leaf in iterate_leaves(parameters, annotations, arguments)
        if leaf.role == "target"
    ]


def find_lookups(text: str, known: Known) -> tuple[tuple[str, str], ...]:
    """Return the records of trusted origin that a text has values of: the tool, and the words."""
    found: dict[str, str] = {}
    words = [one.text for one in tokenize(text) if not (one.raw.isalpha() and one.raw.islower())]
    for word in dict.fromkeys(words):
        for record in known.records.find(word):
            if record.is_lookup and len(record.words) <= _MOST_WORDS and len(found) < _MOST_LOOKUPS:
                found[record.text.strip()] = record.tool
    return tuple([(tool, words) for words, tool in found.items()])
