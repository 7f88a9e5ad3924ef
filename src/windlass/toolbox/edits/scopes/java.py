"""Scopes of Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.scopes.resolver import Namespace, Resolver, Scope

if TYPE_CHECKING:
    from tree_sitter import Node

_TYPES: Final = frozenset(
    {
        "annotation_type_declaration",
        "class_declaration",
        "enum_declaration",
        "interface_declaration",
        "record_declaration",
    }
)


class JavaResolver(Resolver):
    """The scopes of a Java file; methods, types and variables have names of their own."""

    identifiers = frozenset({"identifier", "type_identifier"})
    scopes = {
        "annotation_type_declaration": "class",
        "block": "block",
        "catch_clause": "block",
        "class_body": "class",
        "class_declaration": "class",
        "constructor_declaration": "function",
        "enhanced_for_statement": "block",
        "enum_declaration": "class",
        "for_statement": "block",
        "interface_declaration": "class",
        "lambda_expression": "function",
        "method_declaration": "function",
        "record_declaration": "class",
        "switch_block_statement_group": "block",
        "switch_rule": "block",
        "try_with_resources_statement": "block",
    }
    ignored = frozenset(
        {
            ("annotation", "name"),
            ("element_value_pair", "key"),
            ("marker_annotation", "name"),
            ("scoped_identifier", "name"),
            ("scoped_identifier", "scope"),
        }
    )
    outer = frozenset({(kind, "name") for kind in _TYPES} | {("enhanced_for_statement", "value")})

    def opens(self, node: Node) -> bool:
        """Check whether a body is a scope of its own: only that of an anonymous class is."""
        parent = self.parent
        return node.type != "class_body" or parent is None or parent.type not in _TYPES

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare types, methods, fields, variables and parameters."""
        name = node.child_by_field_name("name")
        match node.type:
            case kind if kind in _TYPES:
                self.bind(name, scope, 0, "plain", "type")
            case "method_declaration" | "annotation_type_element_declaration":
                self.bind(name, scope, 0, "plain", "method")
            case "variable_declarator":
                is_member = scope.kind == "class"
                self.bind(name, scope, 0 if is_member or name is None else name.start_byte)
            case "formal_parameter" | "catch_formal_parameter" | "resource" | "enum_constant":
                self.bind(name, scope)
            case "enhanced_for_statement":
                self.bind(name, inner)
            case "lambda_expression":
                parameters = node.child_by_field_name("parameters")
                if parameters is not None and parameters.type == "identifier":
                    self.bind(parameters, inner)
            case "inferred_parameters":
                for one in node.named_children:
                    self.bind(one, scope)
            case "instanceof_expression":
                self.bind(name, scope.function() if scope.kind == "block" else scope)
            case "type_pattern" | "record_pattern_component":
                for one in node.named_children:
                    if one.type == "identifier":
                        self.bind(one, scope)
            case "type_parameter":
                for one in node.named_children[:1]:
                    if one.type == "type_identifier":
                        self.bind(one, scope, 0, "plain", "type")
            case _:
                pass

    def namespace_of(self, node: Node, field: str | None) -> Namespace:
        """Return the namespace of a use by the place at which it stands."""
        parent = self.parent
        if node.type == "type_identifier":
            return "type"
        if parent is not None and field == "name":
            if parent.type == "method_invocation":
                return "method"
            if parent.type in ("constructor_declaration", "compact_constructor_declaration"):
                return "type"
        return ""

    def fallback(self, namespace: Namespace) -> tuple[Namespace, ...]:
        """Return where else a name is looked up: `Cart.of()` has a type where a variable may be."""
        return ("type",) if namespace == "" else ()

    def is_ignored(self, node: Node, field: str | None) -> bool:
        """Check for labels, imports, and members of other objects."""
        if super().is_ignored(node, field):
            return True
        parent = self.parent
        if parent is None:
            return False
        match parent.type:
            case "import_declaration" | "package_declaration" | "break_statement":
                return True
            case "continue_statement" | "labeled_statement" | "scoped_type_identifier":
                return True
            case "method_invocation" if field == "name":
                target = parent.child_by_field_name("object")
                return target is not None and target.type != "this"
            case "field_access" if field == "field":
                return not _is_own(parent)
            case "method_reference":
                return node.start_byte != parent.start_byte
            case _:
                return False

    def lookup_scope(self, node: Node, scope: Scope) -> Scope:
        """Return the class for `this.total`, which no local variable hides."""
        parent = self.parent
        if parent is not None and parent.type == "field_access" and _is_own(parent):
            return scope.innermost_class()
        return scope


def _is_own(access: Node) -> bool:
    target = access.child_by_field_name("object")
    return target is not None and target.type == "this"
