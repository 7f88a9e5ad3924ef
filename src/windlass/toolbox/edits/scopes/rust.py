"""Scopes of Rust."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.scopes.resolver import Form, Resolver, Scope

if TYPE_CHECKING:
    from tree_sitter import Node

_ITEMS: Final = frozenset(
    {
        "const_item",
        "enum_item",
        "function_item",
        "function_signature_item",
        "mod_item",
        "static_item",
        "struct_item",
        "trait_item",
        "type_item",
        "union_item",
    }
)
_PATTERNS: Final = frozenset(
    {
        "captured_pattern",
        "match_pattern",
        "mut_pattern",
        "or_pattern",
        "ref_pattern",
        "reference_pattern",
        "slice_pattern",
        "struct_pattern",
        "tuple_pattern",
        "tuple_struct_pattern",
    }
)
_CAPTURES: Final = re.compile(rb"(?<!\{)\{([a-z_][A-Za-z0-9_]*)(?=[:}])")


class RustResolver(Resolver):
    """The scopes of a Rust file; a second `let` of a name is another symbol."""

    shadows = True
    identifiers = frozenset({"identifier", "shorthand_field_identifier", "type_identifier"})
    scopes = {
        "block": "block",
        "closure_expression": "function",
        "enum_item": "type",
        "for_expression": "block",
        "function_item": "function",
        "function_signature_item": "function",
        "if_expression": "block",
        "impl_item": "class",
        "match_arm": "block",
        "mod_item": "function",
        "struct_item": "type",
        "trait_item": "class",
        "type_item": "type",
        "union_item": "type",
        "while_expression": "block",
    }
    ignored = frozenset(
        {
            ("generic_type_with_turbofish", "name"),
            ("macro_definition", "name"),
            ("macro_invocation", "macro"),
            ("scoped_identifier", "name"),
            ("scoped_type_identifier", "name"),
            ("type_binding", "name"),
            ("use_as_clause", "path"),
        }
    )
    outer = frozenset(
        {(kind, "name") for kind in _ITEMS}
        | {("if_expression", "alternative"), ("for_expression", "value")}
    )

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare items, `let` bindings, parameters, patterns and imports."""
        name, pattern = node.child_by_field_name("name"), node.child_by_field_name("pattern")
        match node.type:
            case kind if kind in _ITEMS:
                # What an impl or a trait holds is reached through a value or a type.
                if scope.kind != "class":
                    self.bind(name, scope)
            case "let_declaration":
                self.bind_pattern(pattern, scope, node.end_byte)
            case "let_condition":
                self.bind_pattern(pattern, scope, node.end_byte)
            case "match_arm" | "for_expression":
                self.bind_pattern(pattern, inner)
            case "parameter":
                self.bind_pattern(pattern, scope)
            case "closure_parameters":
                for one in node.named_children:
                    self.bind_pattern(one, scope)
            case "type_parameter" | "const_parameter":
                self.bind(name, scope)
            case "use_declaration":
                self._bind_use(node.child_by_field_name("argument"), scope)
            case "string_content":
                self._note_captures(node, scope)
            case _:
                pass

    def pattern_names(self, node: Node) -> Iterator[tuple[Node, Form]]:
        """Yield the names that a pattern binds; those with a capital are constants."""
        match node.type:
            case "identifier":
                if not self.source.text(node)[:1].isupper():
                    yield node, "plain"
            case "field_pattern":
                inner = node.child_by_field_name("pattern")
                name = node.child_by_field_name("name")
                if inner is not None:
                    yield from self.pattern_names(inner)
                elif name is not None:
                    yield name, "shorthand"
            case kind if kind in _PATTERNS:
                kept = node.child_by_field_name("type")
                guard = node.child_by_field_name("condition")
                for one in node.named_children:
                    if one not in (kept, guard):
                        yield from self.pattern_names(one)
            case _:
                return

    def form_of(self, node: Node, field: str | None) -> Form:
        """Return how a use is written: `Cart { total }` names the field too."""
        parent = self.parent
        if parent is not None and parent.type == "shorthand_field_initializer":
            return "shorthand"
        return "plain"

    def is_ignored(self, node: Node, field: str | None) -> bool:
        """Check for labels, attributes, paths, and words of macros that are no variables."""
        if super().is_ignored(node, field):
            return True
        parent = self.parent
        if parent is None:
            return False
        if parent.type in ("label", "attribute", "lifetime", "enum_variant"):
            return True
        if parent.type in ("scoped_use_list", "use_list", "use_declaration", "use_wildcard"):
            return parent.type != "scoped_use_list"
        if parent.type in ("token_tree", "token_repetition"):
            before, after = node.prev_sibling, node.next_sibling
            return (before is not None and before.type in (".", "::", "'")) or (
                after is not None and after.type in (":", "=", "!")
            )
        return False

    def sees(self, scope: Scope, origin: Scope) -> bool:
        """Check whether names are visible: those around a module are not inside it."""
        inner: Scope | None = origin
        while inner is not None and inner is not scope:
            if inner.node.type == "mod_item":
                return False
            inner = inner.parent
        return True

    def _bind_use(self, node: Node | None, scope: Scope) -> None:
        """Bind the last name of each path of a `use`."""
        if node is None:
            return
        match node.type:
            case "identifier" | "type_identifier":
                self.bind(node, scope, 0, "import")
            case "scoped_identifier":
                self.bind(node.child_by_field_name("name"), scope, 0, "import")
            case "use_as_clause":
                self.bind(node.child_by_field_name("alias"), scope)
            case "scoped_use_list":
                self._bind_use(node.child_by_field_name("list"), scope)
            case "use_list":
                for one in node.named_children:
                    self._bind_use(one, scope)
            case _:
                return

    def _note_captures(self, node: Node, scope: Scope) -> None:
        """Note `{name}` in the format string of a macro."""
        literal = node.parent
        tree = literal.parent if literal is not None else None
        if tree is None or tree.type != "token_tree":
            return
        text = self.source.data[node.start_byte : node.end_byte]
        for found in _CAPTURES.finditer(text):
            self.note_text(node.start_byte + found.start(1), node.start_byte + found.end(1), scope)
