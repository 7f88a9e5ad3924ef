"""Scopes of Go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.scopes.resolver import Resolver, Scope, has_token

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS: Final = frozenset({"func_literal", "function_declaration", "method_declaration"})


class GoResolver(Resolver):
    """The scopes of a Go file; the package's other files are not seen."""

    identifiers = frozenset({"identifier", "package_identifier", "type_identifier"})
    scopes = {
        "block": "block",
        "communication_case": "block",
        "default_case": "block",
        "expression_case": "block",
        "expression_switch_statement": "block",
        "for_statement": "block",
        "func_literal": "function",
        "function_declaration": "function",
        "function_type": "block",
        "if_statement": "block",
        "method_declaration": "function",
        "method_elem": "block",
        "type_alias": "type",
        "type_case": "block",
        "type_spec": "type",
        "type_switch_statement": "block",
    }
    ignored = frozenset({("qualified_type", "name")})
    outer = frozenset(
        {("function_declaration", "name"), ("type_spec", "name"), ("type_alias", "name")}
    )

    def opens(self, node: Node) -> bool:
        """Check whether a block is one of its own: the body of a function is not."""
        parent = self.parent
        return node.type != "block" or parent is None or parent.type not in _FUNCTIONS

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare functions, types, variables, parameters and imports."""
        name = node.child_by_field_name("name")
        local = 0 if scope is self.file else node.end_byte
        match node.type:
            case "function_declaration":
                self.bind(name, self.file)
            case "type_spec" | "type_alias":
                self.bind(name, scope, 0 if scope is self.file else node.start_byte)
            case "const_spec" | "var_spec":
                for one in node.children_by_field_name("name"):
                    self.bind(one, scope, local)
            case "parameter_declaration" | "variadic_parameter_declaration":
                for one in node.children_by_field_name("name"):
                    self.bind(one, scope)
            case "type_parameter_declaration":
                for one in node.children_by_field_name("name"):
                    self.bind(one, scope)
            case "short_var_declaration" | "range_clause" | "receive_statement":
                if node.type == "short_var_declaration" or has_token(node, ":="):
                    self._bind_list(node.child_by_field_name("left"), scope, node.end_byte)
            case "type_switch_statement":
                self._bind_list(node.child_by_field_name("alias"), inner, 0)
            case "import_spec":
                if name is not None and name.type == "package_identifier":
                    self.bind(name, self.file)
            case _:
                pass

    def is_ignored(self, node: Node, field: str | None) -> bool:
        """Check for blanks, the package's name, and keys that may be names of fields."""
        parent = self.parent
        if parent is None or self.source.text(node) == "_":
            return True
        if parent.type == "package_clause" or super().is_ignored(node, field):
            return True
        above = parent.parent
        if parent.type == "literal_element" and above is not None and above.type == "keyed_element":
            key = above.child_by_field_name("key")
            if key is not None and key.start_byte == parent.start_byte:
                return not _is_map(above)
        return False

    def _bind_list(self, node: Node | None, scope: Scope, visible_from: int) -> None:
        if node is None:
            return
        for one in node.named_children:
            if one.type == "identifier" and self.source.text(one) != "_":
                self.bind(one, scope, visible_from)


def _is_map(element: Node) -> bool:
    """Check whether the key of an element is an expression: in a map or an array."""
    literal = element.parent.parent if element.parent is not None else None
    kind = literal.child_by_field_name("type") if literal is not None else None
    return kind is not None and kind.type in ("map_type", "array_type", "slice_type")
