"""JSON Schema for Gemini: the same meaning with fewer keywords.

It knows no `const`, `allOf` or `definitions`, enums of strings and numbers only, and a `$ref` that
stands alone. Everything else is sent as it is; what Gemini does not know it ignores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

from windlass.json_types import JsonObject, is_list, is_object

Schema: TypeAlias = JsonObject

_MAPS: Final = frozenset({"properties", "patternProperties"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "prefixItems"})
_ONES: Final = frozenset({"items", "additionalProperties"})
_DEFS: Final = ("$defs", "definitions")
_DEEPEST: Final = 64
_MOST: Final = 256  # parts of `allOf` that are looked up


def dialect(schema: Mapping[str, Any]) -> Schema:
    """Rewrite a schema for Gemini: `dialect({"const": "a"})` -> `{"enum": ["a"]}`."""
    return _Rewriter(dict(schema)).whole()


class _Rewriter:
    """A rewriter of one schema, which writes each referenced definition once, under `$defs`."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.names: dict[str, str] = {}  # of a reference: under `$defs`
        self.found: list[tuple[str, Schema]] = []
        self.opened = 0

    def whole(self) -> Schema:
        """Return the rewritten schema with the definitions it needs."""
        body = {k: v for k, v in self.root.items() if k not in (*_DEFS, "$schema")}
        out = self._of(body, 0)
        defs: JsonObject = {}
        for name, one in self.found:  # which grows on the way, and ends: a reference is found once
            defs[name] = self._of({k: v for k, v in one.items() if k not in _DEFS}, 0)
        return {**out, "$defs": defs} if defs else out

    def _of(self, schema: object, depth: int) -> Any:
        if not isinstance(schema, dict):
            return {}  # true: anything at all
        if depth > _DEEPEST:
            return {}  # no model fills in what lies deeper
        given = cast("Schema", schema)
        if "$ref" in given:
            return self._rewrite_reference(given, depth)
        out: Schema = {}
        for key, value in given.items():
            out.update(self._keyword(key, value, depth + 1))
        if "allOf" in given:
            out = self._all(out, given["allOf"], depth + 1)
        return out

    def _keyword(self, key: str, value: object, depth: int) -> Schema:
        if key == "const":
            return _enum([value])
        if key == "enum" and is_list(value):
            return _enum(value)
        if key == "type" and is_list(value):
            return _types(value)
        if key == "items" and is_list(value):  # a tuple, as it was once written
            return {"prefixItems": [self._of(one, depth) for one in value]}
        if key in _MAPS and is_object(value):
            return {key: {name: self._of(one, depth) for name, one in value.items()}}
        if key in _LISTS and is_list(value):
            return {key: [self._of(one, depth) for one in value]}
        if key in _ONES:
            return {key: value if value is False else self._of(value, depth)}
        return {} if key == "allOf" else {key: value}

    def _rewrite_reference(self, schema: Schema, depth: int) -> Schema:
        name = self._definition_name(str(schema["$ref"]))
        others = {k: v for k, v in schema.items() if k != "$ref"}
        if name is None:
            return self._of(others, depth)
        alone: Schema = {"$ref": f"#/$defs/{name}"}
        if not others:
            return alone
        beside = self._of(others, depth)
        if "anyOf" in beside or "properties" in beside:
            return beside  # Gemini cannot express "both"; the narrower one is kept
        return {**beside, "anyOf": [alone]}

    def _definition_name(self, pointer: str) -> str | None:
        """Return the name under `$defs` of a local reference, or None if it leads nowhere."""
        if pointer in self.names:
            return self.names[pointer]
        found = _follow(self.root, pointer)
        if found is None:
            return None
        name = re.sub(r"\W+", "_", re.sub(r"^#/(\$defs|definitions)/|^#/*", "", pointer)) or "root"
        while name in self.names.values():
            name += "_"
        self.names[pointer] = name
        self.found.append((name, found))
        return name

    def _all(self, out: Schema, parts: object, depth: int) -> Schema:
        """Merge the parts of `allOf` into one schema."""
        if not is_list(parts) or not parts:
            return out
        held = parts
        if len(held) == 1 and isinstance(held[0], dict):
            only = cast("Schema", held[0])
            if "$ref" in only and "anyOf" not in out:
                return {**out, "anyOf": [self._of(only, depth)]}
        for part in held:
            for one in self._open(part):
                _join(out, self._of(one, depth))
        return out

    def _open(self, part: object) -> Iterator[Schema]:
        """Yield a part of `allOf` and the schemas it refers to."""
        while isinstance(part, dict):
            held = cast("Schema", part)
            pointer = held.get("$ref")
            yield {k: v for k, v in held.items() if k != "$ref"}
            self.opened += 1  # which also ends a circle, and parts that double and double again
            if not isinstance(pointer, str) or self.opened > _MOST:
                return
            part = _follow(self.root, pointer)


def _join(out: Schema, more: Schema) -> None:
    merge: dict[str, Callable[[Any, Any], Any]] = {
        "properties": lambda a, b: {**a, **b},
        "required": lambda a, b: [*a, *(name for name in b if name not in a)],
    }
    for key, value in more.items():
        out[key] = merge[key](out[key], value) if key in merge and key in out else value


def _enum(values: list[Any]) -> Schema:
    plain = [v for v in values if isinstance(v, (str, int, float)) and not isinstance(v, bool)]
    kinds = ["null"] if None in values else []
    kinds += ["boolean"] if any(isinstance(v, bool) for v in values) else []
    if not kinds:
        return {"enum": plain} if plain else {}
    if not plain and len(kinds) == 1:
        return {"type": kinds[0]}
    return {"anyOf": [*([{"enum": plain}] if plain else []), *({"type": k} for k in kinds)]}


def _types(kinds: list[Any]) -> Schema:
    if len([kind for kind in kinds if kind != "null"]) <= 1:
        return {"type": kinds if len(kinds) > 1 else kinds[0]} if kinds else {}
    return {"anyOf": [{"type": kind} for kind in kinds]}


def _follow(root: Schema, pointer: str) -> Schema | None:
    if not pointer.startswith("#"):
        return None  # somewhere else in the world
    node: Any = root
    for step in filter(None, pointer[1:].split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        if is_list(node):
            node = dict(enumerate(node)).get(int(name) if name.isdigit() else -1)
        else:
            node = node.get(name) if is_object(node) else None
    return node if is_object(node) else None
