"""The rule: which calls with effects run unasked once untrusted content is in the context."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from windlass.access.facts import kind_of_argument
from windlass.access.flow.actions import action_of
from windlass.access.flow.items import find_items
from windlass.access.flow.mentions import parse_number
from windlass.access.flow.records import RUN, Record, RecordIndex
from windlass.access.flow.roles import Role, choices_of, role_of
from windlass.access.flow.tokens import fold, fold_words
from windlass.access.flow.words import UserWords
from windlass.errors import safe_repr
from windlass.json_types import is_mapping, is_sequence

Origin: TypeAlias = Literal[
    "user", "lookup", "host", "approved", "untrusted", "private", "unnamed", "secret", "unknown"
]
TRUSTED: Final[frozenset[Origin]] = frozenset({"user", "lookup", "host", "approved"})
_MOST_VALUES: Final = 500  # of a call; nobody names more of them
_MOST_LOOKUPS: Final = 50  # records that a sub-agent's answer hands on
_MOST_WORDS: Final = 200  # of such a record
Target: TypeAlias = tuple[str, str, str]  # tool, argument, value


class Value(NamedTuple):
    """A value of a call: where it stands, what it does there, and where it comes from."""

    argument: str
    role: Role
    shown: str
    origin: Origin
    source: str = ""  # the tool that gave it


class Known(NamedTuple):
    """What a session has heard so far."""

    user: UserWords
    host: UserWords
    records: RecordIndex


class Decision(NamedTuple):
    """Whether a call runs unasked, each of its values, and the reasons to ask."""

    values: tuple[Value, ...]
    reasons: tuple[str, ...]
    is_refused: bool = False  # somebody said never

    @property
    def asks(self) -> bool:
        """Somebody must say yes."""
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
    values: list[Value] = []
    reasons: list[str] = []
    fields: Mapping[str, Any] = parameters.get("properties") or {}
    reasons += _find_other_choices(fields, arguments, known)
    writes_file = any(kind_of_argument(name, annotations) == "path" for name in fields)
    for leaf in _leaves(arguments, fields, annotations):
        if len(values) >= _MOST_VALUES:
            reasons.append(f"it has more than {_MOST_VALUES} values")
            break
        if leaf.role == "content":
            reasons += _check_content(leaf, known)
            if writes_file and isinstance(leaf.value, str):
                reasons += _check_lines(leaf, known)
        target = (tool, leaf.path, fold(str(leaf.value)))
        if leaf.role == "target" and target in refused:
            never = f"somebody said never to {leaf.path} = {safe_repr(leaf.value, 80)}"
            return Decision(tuple(values), (never,), True)
        origin, source = find_origin(leaf, tool, known)
        if leaf.role == "target" and origin not in TRUSTED and target in allowed:
            origin, source = "approved", ""
        value = Value(leaf.path, leaf.role, safe_repr(leaf.value, 80), origin, source)
        values.append(value)
        if leaf.role != "content" and origin not in TRUSTED:
            reasons.append(_tell(value))
    action = action_of(tool)
    if action is not None and not known.user.asks_for(action):
        if all(value.role == "target" for value in values):  # that an object was named is no order
            reasons.append(f"the user did not ask to {action} anything")
    return Decision(tuple(values), tuple(dict.fromkeys(reasons)))


def _find_other_choices(
    fields: Mapping[str, Any], arguments: Mapping[str, Any], known: Known
) -> Iterator[str]:
    """Yield the choices that are left at their default where the user named another."""
    for name, schema in fields.items():
        if not is_mapping(schema) or schema.get("default") is None:
            continue
        value = arguments.get(name, schema["default"])
        choices = choices_of(schema)
        if value != schema["default"] or value not in choices:
            continue
        said = [one for one in choices if isinstance(one, str) and known.user.names_choice(one)]
        if said and value not in said:
            yield f"{name} is {value!r}, and the user said {', '.join(map(repr, said))}"


def _check_lines(leaf: _Leaf, known: Known) -> Iterator[str]:
    """Yield the first line for a file that neither the user nor a trusted source gave."""
    for line in str(leaf.value).splitlines():
        if not fold_words(line) or known.user.says(line) or known.host.says(line):
            continue
        if not any(record.trust == "trusted" for record in known.records.find(line)):
            yield f"{leaf.path} writes {safe_repr(line.strip(), 60)}, which nobody trusted gave"
            return


def _tell(value: Value) -> str:
    what = "target" if value.role == "target" else "what is at stake"
    whence = {
        "untrusted": f"from untrusted content ({value.source})",
        "private": f"from {value.source}, in a record that the user did not name",
        "unnamed": f"from {value.source}, in a record that the user did not name",
    }.get(value.origin, "from nothing that the user said")
    return f"{what} {value.argument} = {value.shown} comes {whence}"


def decide_read(
    annotations: Mapping[str, Any], arguments: Mapping[str, Any], known: Known
) -> Decision:
    """Decide about a call without effects: an address put together here carries something out."""
    reasons: list[str] = []
    for name, value in arguments.items():
        if not isinstance(value, str) or kind_of_argument(name, annotations) != "url":
            continue
        if known.user.says(value) or known.host.says(value):
            continue
        given = list(known.records.find(value))
        if any(record.trust == "trusted" for record in given):
            continue
        if not given:
            reasons.append(f"nobody gave the address {safe_repr(value, 80)}: it may carry data out")
        elif "?" in value or "@" in value:
            reasons.append(
                f"the address {safe_repr(value, 80)} of {given[0].tool} carries data out"
            )
    return Decision((), tuple(reasons))


def named_targets(
    tool: str,
    parameters: Mapping[str, Any],
    annotations: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> list[Target]:
    """Return the targets of a call, as an answer for the rest of the session remembers them."""
    fields: Mapping[str, Any] = parameters.get("properties") or {}
    return [
        (tool, leaf.path, fold(str(leaf.value)))
        for leaf in _leaves(arguments, fields, annotations)
        if leaf.role == "target"
    ]


def find_lookups(text: str, known: Known) -> tuple[tuple[str, str], ...]:
    """Return the records of trusted origin that a text has values of: the tool, and the words."""
    found: dict[str, str] = {}
    for word in dict.fromkeys(fold_words(text)):
        if word.isalpha():
            continue
        for record in known.records.find(word):
            if record.is_lookup and len(record.words) <= _MOST_WORDS and len(found) < _MOST_LOOKUPS:
                found[record.text.strip()] = record.tool
    return tuple([(tool, words) for words, tool in found.items()])


class _Leaf(NamedTuple):
    path: str
    name: str
    role: Role
    value: object
    schema: Mapping[str, Any]


def _leaves(
    arguments: Mapping[str, Any],
    fields: Mapping[str, Any],
    annotations: Mapping[str, Any],
    path: str = "",
    above: Role | None = None,
) -> Iterator[_Leaf]:
    for name, value in arguments.items():
        field = fields.get(name)
        schema: Mapping[str, Any] = field if is_mapping(field) else {}
        role = above or role_of(name, schema, annotations).role
        if (
            "default" in schema
            and value == schema["default"]
            and type(value) is type(schema["default"])
        ):
            continue  # the same as if it were left out
        yield from _inside(value, f"{path}{name}", name, role, schema, annotations)


def _inside(
    value: object,
    path: str,
    name: str,
    role: Role,
    schema: Mapping[str, Any],
    annotations: Mapping[str, Any],
) -> Iterator[_Leaf]:
    if is_mapping(value) and value:
        inner = schema.get("properties")
        known: Mapping[str, Any] = inner if is_mapping(inner) else {}
        above = None if role != "content" else role
        yield from _leaves(value, known, annotations, f"{path}.", above)
        for key in value:
            if key not in known:  # a key that the schema does not name was chosen too
                yield _Leaf(f"{path}.{key}", name, role, key, {})
    elif is_sequence(value) and value:
        items = schema.get("items")
        for one in value:
            yield from _inside(
                one, path, name, role, items if is_mapping(items) else {}, annotations
            )
    else:
        yield _Leaf(path, name, role, value, schema)


def find_origin(leaf: _Leaf, tool: str, known: Known) -> tuple[Origin, str]:
    """Return where a value comes from, and the tool that gave it."""
    value = leaf.value
    if isinstance(value, bool):
        return ("user", "") if known.user.says_switch(value, leaf.name) else ("unknown", "")
    if isinstance(value, (int, float, Decimal)):
        return _origin_of_number(str(value), leaf, tool, known)
    if not isinstance(value, str) or not value.strip():
        return "unknown", ""
    if value in choices_of(leaf.schema):
        return ("user", "") if known.user.names_choice(value) else ("unknown", "")
    said = known.user.says_date(value)
    if said is not None:
        if said:
            return "user", ""
    elif parse_number(value) is not None:
        return _origin_of_number(value, leaf, tool, known)
    elif leaf.role == "target":
        if known.user.names_text(value, leaf.name):
            return "user", ""
    elif known.user.says(value):
        return "user", ""
    if known.host.names_text(value, leaf.name):
        return "host", ""
    return _origin_in_records(known.records.find(value))


def _origin_of_number(text: str, leaf: _Leaf, tool: str, known: Known) -> tuple[Origin, str]:
    number = parse_number(text)
    if number is not None and known.user.says_number(
        number, leaf.name, tool, target=leaf.role == "target"
    ):
        return "user", ""
    return _origin_in_records(known.records.find_number(text))


def _origin_in_records(records: Iterator[Record]) -> tuple[Origin, str]:
    found: tuple[Origin, str] = ("unknown", "")
    for record in records:
        if record.trust == "secret":
            return "secret", record.tool
        if record.is_lookup:
            found = ("lookup", record.tool)
        elif found[0] != "lookup" and record.trust == "untrusted":
            found = ("untrusted", record.tool)
        elif found[0] == "unknown":
            found = ("private" if record.is_hidden else "unnamed", record.tool)
    return found


def _check_content(leaf: _Leaf, known: Known) -> Iterator[str]:
    """Yield what stands against sending these words: addresses, links, codes and secrets in them."""
    if not isinstance(leaf.value, str):
        return
    for item in find_items(leaf.value):
        if not _is_trusted_item(item.text, known):
            yield f"{leaf.path} passes on the {item.kind} {safe_repr(item.text, 80)}, which nobody named"
    yield from _find_private(leaf, known)


def _is_trusted_item(text: str, known: Known) -> bool:
    if known.user.says(text) or known.host.says(text):
        return True
    return _origin_in_records(known.records.find(text))[0] == "lookup"


def _find_private(leaf: _Leaf, known: Known) -> Iterator[str]:
    """Yield the first value or run of words that comes from a record nobody may pass on unasked."""
    words = fold_words(str(leaf.value))
    for place, word in enumerate(words):
        record: Record | None = None
        if len(word) > 2 and any([letter.isdigit() for letter in word]):
            origin, _ = _origin_in_records(known.records.find(word))
            if origin in ("private", "secret") and not known.user.says(word):
                record = next(one for one in known.records.find(word) if one.is_hidden)
        if record is None and place + RUN <= len(words):
            run = known.records.find_run(words[place : place + RUN])
            if (
                run is not None
                and run.is_hidden
                and not known.user.says(" ".join(words[place : place + RUN]))
            ):
                record = run
        if record is not None:
            what = (
                "a secret"
                if record.trust == "secret"
                else f"{word!r}, which the user did not name,"
            )
            yield f"{leaf.path} tells {what} from {record.tool}"
            return
