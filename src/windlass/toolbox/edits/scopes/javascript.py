"""Scopes of JavaScript, TypeScript and TSX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.scopes.resolver import Form, Resolver, Scope, has_token

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMED_OUTSIDE: Final = frozenset(
    {
        "abstract_class_declaration",
        "class_declaration",
        "enum_declaration",
        "function_declaration",
        "function_signature",
        "generator_function_declaration",
        "interface_declaration",
        "internal_module",
        "module",
        "type_alias_declaration",
    }
)
_PARAMETERS: Final = frozenset({"required_parameter", "optional_parameter"})


class JavaScriptResolver(Resolver):
    """The scopes of a file in JavaScript or TypeScript; types and values share their names."""

    identifiers = frozenset(
        {
            "identifier",
            "shorthand_property_identifier",
            "shorthand_property_identifier_pattern",
            "type_identifier",
        }
    )
    scopes = {
        "abstract_class_declaration": "type",
        "arrow_function": "function",
        "call_signature": "type",
        "catch_clause": "block",
        "class": "type",
        "class_declaration": "type",
        "conditional_type": "type",
        "construct_signature": "type",
        "constructor_type": "type",
        "for_in_statement": "block",
        "for_statement": "block",
        "function_declaration": "function",
        "function_expression": "function",
        "function_signature": "function",
        "function_type": "type",
        "generator_function": "function",
        "generator_function_declaration": "function",
        "index_signature": "type",
        "interface_declaration": "type",
        "internal_module": "function",
        "method_definition": "function",
        "method_signature": "type",
        "abstract_method_signature": "type",
        "module": "function",
        "statement_block": "block",
        "switch_body": "block",
        "type_alias_declaration": "type",
        "class_static_block": "function",
    }
    ignored = frozenset(
        {
            ("export_specifier", "alias"),
            ("index_signature", "name"),
            ("namespace_export", "name"),
            ("nested_type_identifier", "name"),
            ("optional_parameter", "name"),
            ("required_parameter", "name"),
        }
    )
    outer = frozenset({(kind, "name") for kind in _NAMED_OUTSIDE} | {("class", "decorator")})

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare variables, functions, classes, types, parameters and imports."""
        name = node.child_by_field_name("name")
        match node.type:
            case kind if kind in _NAMED_OUTSIDE:
                if name is not None and name.type in self.identifiers:
                    self.bind(name, scope)
            case "function_expression" | "generator_function" | "class":
                self.bind(name, inner)
            case "variable_declarator":
                parent = self.parent
                is_var = parent is not None and parent.type == "variable_declaration"
                self.bind_pattern(name, scope.function() if is_var else scope)
            case "for_in_statement":
                if has_token(node, "const", "let", "var"):
                    target = scope.function() if has_token(node, "var") else inner
                    self.bind_pattern(node.child_by_field_name("left"), target)
            case "catch_clause":
                self.bind_pattern(node.child_by_field_name("parameter"), inner)
            case "arrow_function":
                self.bind_pattern(node.child_by_field_name("parameter"), inner)
            case "formal_parameters":
                self._bind_parameters(node, scope)
            case "type_parameter" | "mapped_type_clause":
                self.bind(name, scope)
            case "infer_type":
                for one in node.named_children[:1]:
                    self.bind(one, scope)
            case "import_clause" | "namespace_import" | "import_require_clause":
                for one in node.named_children:
                    if one.type == "identifier":
                        self.bind(one, self.file)
            case "import_specifier":
                alias = node.child_by_field_name("alias")
                self.bind(alias or name, self.file, 0, "plain" if alias else "import")
            case _:
                pass

    def _bind_parameters(self, node: Node, scope: Scope) -> None:
        for one in node.named_children:
            if one.type in _PARAMETERS:
                self.bind_pattern(one.child_by_field_name("pattern"), scope)
            elif one.type not in ("decorator", "comment"):
                self.bind_pattern(one, scope)

    def pattern_names(self, node: Node) -> Iterator[tuple[Node, Form]]:
        """Yield the names that a destructuring pattern binds."""
        match node.type:
            case "identifier":
                yield node, "plain"
            case "shorthand_property_identifier_pattern":
                yield node, "shorthand"
            case "pair_pattern":
                value = node.child_by_field_name("value")
                if value is not None:
                    yield from self.pattern_names(value)
            case "assignment_pattern" | "object_assignment_pattern":
                left = node.child_by_field_name("left")
                if left is not None:
                    yield from self.pattern_names(left)
            case "object_pattern" | "array_pattern" | "rest_pattern":
                for one in node.named_children:
                    yield from self.pattern_names(one)
            case _:
                return

    def form_of(self, node: Node, field: str | None) -> Form:
        """Return how a use is written: `{x}` and `export {x}` keep the old name outside."""
        if node.type.startswith("shorthand_property"):
            return "shorthand"
        parent = self.parent
        if parent is not None and parent.type == "export_specifier":
            if parent.child_by_field_name("alias") is None:
                return "export"
        return "plain"

    def is_ignored(self, node: Node, field: str | None) -> bool:
        """Check for names of tags, of what another module exports, and of imported things."""
        if super().is_ignored(node, field):
            return True
        parent = self.parent
        if parent is None:
            return False
        if parent.type == "import_specifier":
            return True
        if parent.type == "export_specifier":
            clause = parent.parent
            statement = clause.parent if clause is not None else None
            return statement is not None and statement.child_by_field_name("source") is not None
        if parent.type.startswith("jsx_") and field == "name":
            return self.source.text(node)[:1].islower()
        return False
