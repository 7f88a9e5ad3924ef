"""The values of a call, one by one: their role, and where they come from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from windlass.access.flow.numbers import parse_number
from windlass.access.flow.records import Record, RecordIndex
from windlass.access.flow.roles import Role, choices_of, role_of
from windlass.access.flow.words import UserWords
from windlass.json_types import is_mapping, is_sequence

Origin: TypeAlias = Literal[
    "user",
    "lookup",
    "host",
    "approved",
    "untrusted",
    "private",
    "unnamed",
    "secret",
    "unknown",
]
_MOST_REFERENCES: Final = 20  # from one schema to the next
TRUSTED: Final[frozenset[Origin]] = frozenset({"user", "lookup", "host", "approved"})


class Known(NamedTuple):
    """What a session has heard so far."""

    user: UserWords
    host: UserWords
    records: RecordIndex


class Leaf(NamedTuple):
    """A single value of a call, and what is known of its argument."""

    path: str
    name: str
    role: Role
    value: object
    schema: Mapping[str, Any]
    is_required: bool = False


def iterate_leaves(
    parameters: Mapping[str, Any],
    annotations: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> Iterator[Leaf]:
    """Yield each value that a call chooses; one that equals its default was not chosen."""
    yield from _Walk(parameters, annotations).iterate_fields(arguments, parameters)


class _Walk:
    """The way through the arguments of a call, beside the schema of its tool."""

    def __init__(self, root: Mapping[str, Any], annotations: Mapping[str, Any]) -> None:
        self.root, self.annotations = root, annotations

    def iterate_fields(
        self,
        arguments: Mapping[str, Any],
        schema: Mapping[str, Any],
        path: str = "",
        above: Role | None = None,
    ) -> Iterator[Leaf]:
        """Yield the values of an object; one that equals its default was not chosen."""
        fields: Mapping[str, Any] = schema.get("properties") or {}
        required: Collection[str] = schema.get("required") or ()
        for name, value in arguments.items():
            field = fields.get(name)
            known: Mapping[str, Any] = field if is_mapping(field) else {}
            if "default" in known:
                default = known["default"]
                if value == default and type(value) is type(default):
                    continue
            role = above or role_of(name, known, self.annotations).role
            yield from self._iterate_inside(
                Leaf(f"{path}{name}", name, role, value, known, name in required)
            )

    def _iterate_inside(self, leaf: Leaf) -> Iterator[Leaf]:
        value = leaf.value
        if is_mapping(value) and value:
            schema = self._find_schema(leaf.schema, "properties")
            above: Role | None = leaf.role if leaf.role == "content" else None
            yield from self.iterate_fields(value, schema, f"{leaf.path}.", above)
            named: Mapping[str, Any] = schema.get("properties") or {}
            for key in value:
                if key not in named:  # a key that the schema does not name was chosen too
                    yield leaf._replace(path=f"{leaf.path}.{key}", value=key, schema={})
        elif is_sequence(value) and value:
            items = self._find_schema(leaf.schema, "items").get("items")
            inner: Mapping[str, Any] = items if is_mapping(items) else {}
            for one in value:
                yield from self._iterate_inside(leaf._replace(value=one, schema=inner))
        else:
            yield leaf

    def _find_schema(self, schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Return the schema that has a key, behind references and among alternatives."""
        for _ in range(_MOST_REFERENCES):
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            known: Mapping[str, Any] = self.root.get("$defs") or {}
            if not name or not is_mapping(known.get(name)):
                break
            schema = known[name]
        if key in schema:
            return schema
        for one in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())):
            if is_mapping(one) and key in (inner := self._find_schema(one, key)):
                return inner
        return schema


def find_origin(leaf: Leaf, tool: str, known: Known) -> tuple[Origin, str]:
    """Return where a value comes from, and the tool that gave it."""
    value = leaf.value
    if isinstance(value, bool):
        return ("user" if known.user.wants_switch(leaf.name) is value else "unknown"), ""
    if isinstance(value, (int, float, Decimal)):
        return _find_origin_of_number(str(value), leaf, tool, known)
    if value == []:
        return ("user" if known.user.says_nobody else "unknown"), ""
    if not isinstance(value, str) or not value.strip():
        return "unknown", ""
    if value in choices_of(leaf.schema):
        return ("user" if known.user.find_choice(value) else "unknown"), ""
    said = known.user.says_date(value)
    if said is None:
        if parse_number(value) is not None:
            return _find_origin_of_number(value, leaf, tool, known)
        if leaf.role == "target":
            said = known.user.names_text(value, leaf.name, tool)
        else:
            said = known.user.says(value)
    if said:
        return "user", ""
    if known.host.names_text(value, leaf.name, tool):
        return "host", ""
    return origin_in_records(known.records.find(value))


def _find_origin_of_number(text: str, leaf: Leaf, tool: str, known: Known) -> tuple[Origin, str]:
    number = parse_number(text)
    target = leaf.role == "target"
    if number is not None and known.user.says_number(number, leaf.name, tool, target=target):
        return "user", ""
    return origin_in_records(known.records.find_number(text))


def origin_in_records(records: Iterator[Record]) -> tuple[Origin, str]:
    """Return the best origin that records give a value; a secret stays one wherever else it is."""
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
