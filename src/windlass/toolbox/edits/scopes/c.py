"""Scopes of C and C++."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.scopes.resolver import Namespace, Resolver, Scope

if TYPE_CHECKING:
    from tree_sitter import Node

_SPECIFIERS: Final = frozenset(
    {"class_specifier", "enum_specifier", "struct_specifier", "union_specifier"}
)
_LEAVES: Final = frozenset({"field_identifier", "identifier", "type_identifier"})
_DECLARING: Final = frozenset(
    {
        "declaration",
        "field_declaration",
        "for_range_loop",
        "function_definition",
        "optional_parameter_declaration",
        "parameter_declaration",
        "condition_declaration",
        "type_definition",
    }
)


class CResolver(Resolver):
    """The scopes of a file in C or C++, without what its headers declare."""

    identifiers = frozenset(
        {"field_identifier", "identifier", "namespace_identifier", "type_identifier"}
    )
    scopes = {
        "catch_clause": "block",
        "class_specifier": "class",
        "compound_statement": "block",
        "for_range_loop": "block",
        "for_statement": "block",
        "function_declarator": "block",
        "function_definition": "function",
        "if_statement": "block",
        "lambda_expression": "function",
        "namespace_definition": "block",
        "preproc_function_def": "function",
        "struct_specifier": "class",
        "switch_statement": "block",
        "template_declaration": "type",
        "union_specifier": "class",
        "while_statement": "block",
    }
    ignored = frozenset({("qualified_identifier", "name")})
    outer = frozenset(
        {(kind, "name") for kind in _SPECIFIERS}
        | {("namespace_definition", "name"), ("preproc_function_def", "name")}
        | {("function_definition", "type")}
    )

    def opens(self, node: Node) -> bool:
        """Check whether a declarator has parameters of its own: that of a definition has not."""
        if node.type != "function_declarator":
            return True
        above = node.parent
        while above is not None and above.type.endswith("_declarator"):
            above = above.parent
        return above is None or above.type not in ("function_definition", "lambda_expression")

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare functions, variables, types, parameters, enumerators and macros."""
        name = node.child_by_field_name("name")
        match node.type:
            case kind if kind in _DECLARING:
                self._bind_declarators(node, scope, inner)
            case kind if kind in _SPECIFIERS:
                if node.child_by_field_name("body") is not None:
                    self.bind(name, scope, 0, "plain", "type")
            case "enumerator":
                self.bind(name, scope)
            case "preproc_def" | "preproc_function_def":
                self.bind(name, self.file)
            case "preproc_params":
                for one in node.named_children:
                    self.bind(one, scope)
            case "alias_declaration":
                self.bind(name, scope, 0, "plain", "type")
            case "namespace_definition":
                self.bind(name, scope, 0, "plain", "namespace")
            case "type_parameter_declaration" | "variadic_type_parameter_declaration":
                for one in node.named_children:
                    if one.type == "type_identifier":
                        self.bind(one, scope, 0, "plain", "type")
            case "structured_binding_declarator":
                for one in node.named_children:
                    self.bind(one, scope, one.start_byte)
            case _:
                pass

    def namespace_of(self, node: Node, field: str | None) -> Namespace:
        """Return the namespace of a use by its node."""
        if node.type == "type_identifier":
            return "type"
        if node.type == "namespace_identifier":
            return "namespace"
        parent = self.parent
        if parent is not None and parent.type == "destructor_name":
            return "type"
        return ""

    def fallback(self, namespace: Namespace) -> tuple[Namespace, ...]:
        """Return where else a name is looked up: constructors and macros look like others."""
        return ("",) if namespace == "type" else ("type",)

    def is_ignored(self, node: Node, field: str | None) -> bool:
        """Check for members of other objects; `this->x` is the class's own."""
        parent = self.parent
        if super().is_ignored(node, field) or parent is None:
            return True
        if node.type == "field_identifier":
            if parent.type == "field_expression":
                target = parent.child_by_field_name("argument")
                return target is None or target.type != "this"
            return parent.type != "field_initializer"
        return False

    def lookup_scope(self, node: Node, scope: Scope) -> Scope:
        """Return the class for `this->total`, which no local variable hides."""
        return scope.innermost_class() if node.type == "field_identifier" else scope

    def _bind_declarators(self, node: Node, scope: Scope, inner: Scope) -> None:
        target = inner if node.type in ("for_range_loop",) else scope
        for one in node.children_by_field_name("declarator"):
            leaf = _leaf(one)
            if leaf is None:
                continue
            if node.type == "type_definition":
                self.bind(leaf, target, 0, "plain", "type")
            elif not self._is_constructor(leaf, scope):
                visible = leaf.start_byte if target.kind in ("block", "function") else 0
                self.bind(leaf, target, visible)

    def _is_constructor(self, leaf: Node, scope: Scope) -> bool:
        if scope.kind != "class" or leaf.type != "identifier":
            return False
        name = scope.node.child_by_field_name("name")
        return name is not None and self.source.text(name) == self.source.text(leaf)


def _leaf(node: Node) -> Node | None:
    """Return the name that a declarator declares: `*name[3]`, `name = 1`, `(*name)(int)`."""
    inner: Node | None = node
    while inner is not None and inner.type not in _LEAVES:
        below = inner.child_by_field_name("declarator")
        if below is None and inner.type in ("reference_declarator", "parenthesized_declarator"):
            below = inner.named_children[-1] if inner.named_children else None
        inner = below
    return inner
