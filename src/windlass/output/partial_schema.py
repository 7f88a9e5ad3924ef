"""What a schema says about a value that is still being written: which of it may be shown, and when."""

from __future__ import annotations

from typing import Final, TypeAlias, cast

from windlass.json_types import JsonObject, as_list, as_object, is_list, is_object
from windlass.tools.arguments.validate import Checker

#: The forms that a value may have: one schema for each branch of a union.
Branches: TypeAlias = tuple[JsonObject, ...]

ANYTHING: Final[Branches] = ({},)
NOTHING: Final[Branches] = ()
_WORDS: Final = frozenset(
    {"type", "title", "description", "default", "examples", "$comment", "deprecated", "$defs"}
)
_NUMBERS: Final = ("integer", "number")


class PartialSchema:
    """A schema, looked at from the beginning of a value to its end."""

    def __init__(self, schema: JsonObject) -> None:
        self._definitions = {
            key: schema[key] for key in ("$defs", "definitions") if is_object(schema.get(key))
        }
        self._schema = schema
        self._checkers: dict[int, tuple[JsonObject, Checker]] = {}
        self._branches: dict[int, tuple[object, Branches]] = {}
        self.root = self.branches(schema)

    def branches(self, schema: object) -> Branches:
        """Return the forms that a schema allows, each without references and unions."""
        if not is_object(schema):
            return NOTHING if schema is False else ANYTHING
        known = self._branches.get(id(schema))
        if known is None:
            known = self._branches[id(schema)] = (schema, tuple(self._flatten(schema, 0)))
        return known[1]

    def _flatten(self, schema: object, depth: int) -> list[JsonObject]:
        if not is_object(schema):
            return [] if schema is False else [{}]
        if depth > 20:
            return [schema]
        if isinstance(ref := schema.get("$ref"), str):
            return self._flatten(self._follow(ref), depth + 1)
        for word in ("anyOf", "oneOf"):
            if is_list(options := schema.get(word)):
                return [form for one in options for form in self._flatten(one, depth + 1)]
        joined = as_list(schema.get("allOf"))
        if len(joined) == 1 and _WORDS.issuperset(set(schema) - {"allOf"}):
            return self._flatten(joined[0], depth + 1)
        return [schema]

    def _follow(self, ref: str) -> object:
        found: object = self._schema
        for part in ref.removeprefix("#").strip("/").split("/"):
            if part:
                found = as_object(found).get(part.replace("~1", "/").replace("~0", "~"), True)
        return found

    def of_kind(self, branches: Branches, kind: str) -> Branches:
        """Return the forms that a value of this kind of JSON may have."""
        return tuple([one for one in branches if _allows(one, kind)])

    def of_key(self, form: JsonObject, key: str) -> Branches:
        """Return the forms of a field of an object."""
        declared = as_object(form.get("properties"))
        if key in declared:
            return self.branches(declared[key])
        if "patternProperties" in form:
            return NOTHING
        return self.branches(form.get("additionalProperties", True))

    def of_item(self, form: JsonObject, index: int) -> Branches:
        """Return the forms of an item of a list."""
        first = as_list(form.get("prefixItems"))
        if index < len(first):
            return self.branches(first[index])
        return self.branches(form.get("items", True))

    def is_valid(self, branches: Branches, value: object) -> bool:
        """Check whether a finished value has one of these forms."""
        for form in branches:
            if not form or self._checker(form).is_valid(cast("JsonObject", value)):
                return True
        return False

    def _checker(self, form: JsonObject) -> Checker:
        known = self._checkers.get(id(form))
        if known is None:
            whole = form if form is self._schema else {**self._definitions, **form}
            known = self._checkers[id(form)] = (form, Checker(whole, "partial"))
        return known[1]


def may_grow(branches: Branches) -> bool:
    """Check whether a text may be shown before it is finished: nothing but its type is asked of it."""
    return len(branches) == 1 and _WORDS.issuperset(branches[0])


def rules_out(form: JsonObject, key: str, value: object) -> bool:
    """Check whether a finished field says that an object has another form: a discriminator."""
    declared = as_object(as_object(form.get("properties")).get(key))
    if "const" in declared:
        return declared["const"] != value
    return is_list(allowed := declared.get("enum")) and value not in allowed


def _allows(form: JsonObject, kind: str) -> bool:
    """Check whether a form may be of this kind: object, array, string, number, boolean or null."""
    types = form.get("type")
    if types is None:
        return not _has_form(form) or kind in _kinds_of_values(form)
    wanted = as_list(types) if is_list(types) else [types]
    return kind in wanted or (kind == "number" and any([name in wanted for name in _NUMBERS]))


def _has_form(form: JsonObject) -> bool:
    return "enum" in form or "const" in form


def _kinds_of_values(form: JsonObject) -> set[str]:
    values = [form["const"]] if "const" in form else as_list(form.get("enum"))
    return {kind_of(value) for value in values}


def kind_of(value: object) -> str:
    """Name the kind of JSON that a value is."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"
