"""Scopes of Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.scopes.resolver import Form, Resolver, Scope, children_of

if TYPE_CHECKING:
    from tree_sitter import Node

_COMPREHENSIONS: Final = frozenset(
    {
        "dictionary_comprehension",
        "generator_expression",
        "list_comprehension",
        "set_comprehension",
    }
)
_PATTERNS: Final = frozenset(
    {
        "as_pattern_target",
        "dictionary_splat_pattern",
        "list",
        "list_pattern",
        "list_splat",
        "list_splat_pattern",
        "parenthesized_expression",
        "pattern_list",
        "tuple",
        "tuple_pattern",
        "expression_list",
    }
)


class PythonResolver(Resolver):
    """The scopes of a Python file, as the compiler's symbol table has them."""

    ignored = frozenset(
        {("attribute", "attribute"), ("keyword_argument", "name"), ("aliased_import", "name")}
        | {("import_from_statement", "module_name")}
    )

    def enter(self, node: Node, scope: Scope) -> list[tuple[Node, str | None, Scope]]:
        match node.type:
            case "function_definition" | "lambda":
                return self._enter_function(node, scope)
            case "class_definition":
                return self._enter_class(node, scope)
            case kind if kind in _COMPREHENSIONS:
                return self._enter_comprehension(node, scope)
            case "type_alias_statement":
                return self._enter_type_alias(node, scope)
            case "dotted_name":
                return self._enter_dotted(node, scope)
            case "keyword_pattern":
                return [(one, field, scope) for one, field in children_of(node)[1:]]
            case _:
                self.declare(node, scope, scope)
        return [(one, field, scope) for one, field in children_of(node)]

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare the targets of assignments, loops, imports, `with`, `except` and `case`."""
        match node.type:
            case "assignment" | "augmented_assignment" | "for_statement" | "for_in_clause":
                self.bind_pattern(node.child_by_field_name("left"), scope)
            case "named_expression":
                target = scope
                while target.kind == "block" and target.parent is not None:
                    target = target.parent
                self.bind(node.child_by_field_name("name"), target)
            case "as_pattern_target" | "delete_statement":
                for one in node.named_children:
                    self.bind_pattern(one, scope)
            case "as_pattern":
                self._bind_case_alias(node, scope)
            case "import_statement" | "import_from_statement":
                self._bind_import(node, scope)
            case "global_statement":
                for one in node.named_children:
                    name = self.source.text(one)
                    scope.outside[name] = self.file
                    # `global x` makes x a name of the module, even if only functions assign it
                    self.bind(one, self.file)
            case "nonlocal_statement":
                for one in node.named_children:
                    scope.outside[self.source.text(one)] = None
            case "case_pattern" | "splat_pattern" | "union_pattern":
                self._bind_captures(node, scope)
            case _:
                pass

    def pattern_names(self, node: Node) -> Iterator[tuple[Node, Form]]:
        """Yield the names that an assignment target binds."""
        if node.type == "identifier":
            yield node, "plain"
        elif node.type in _PATTERNS:
            for one in node.named_children:
                yield from self.pattern_names(one)

    def sees(self, scope: Scope, origin: Scope) -> bool:
        """Check whether a name is visible; those of a class are not from functions inside it."""
        if scope.kind != "class":
            return True
        inner: Scope | None = origin
        while inner is not None and inner is not scope:
            if inner.kind != "type":
                return False
            inner = inner.parent
        return True

    def _enter_function(self, node: Node, scope: Scope) -> list[tuple[Node, str | None, Scope]]:
        self.bind(node.child_by_field_name("name"), scope)
        around = self._type_scope(node, scope)
        inner = Scope("function", node, around)
        entered: list[tuple[Node, str | None, Scope]] = []
        for child, field in children_of(node):
            if field == "parameters":
                for one in child.named_children:
                    entered += self._enter_parameter(one, around, inner)
            elif field == "body":
                entered.append((child, field, inner))
            else:
                entered.append((child, field, scope if field == "name" else around))
        return entered

    def _enter_parameter(
        self, node: Node, around: Scope, inner: Scope
    ) -> list[tuple[Node, str | None, Scope]]:
        """Bind a parameter inside; its default and its annotation belong to the scope around."""
        if node.type in ("identifier", "list_splat_pattern", "dictionary_splat_pattern"):
            self.bind_pattern(node, inner)
            return [(node, None, inner)]
        entered: list[tuple[Node, str | None, Scope]] = []
        for child, field in children_of(node):
            if field in ("type", "value"):
                entered.append((child, field, around))
            else:
                self.bind_pattern(child, inner)
                entered.append((child, field, inner))
        return entered

    def _enter_class(self, node: Node, scope: Scope) -> list[tuple[Node, str | None, Scope]]:
        self.bind(node.child_by_field_name("name"), scope)
        around = self._type_scope(node, scope)
        inner = Scope("class", node, around)
        scopes = {"body": inner, "name": scope}
        return [
            (child, field, scopes.get(field or "", around)) for child, field in children_of(node)
        ]

    def _enter_comprehension(
        self, node: Node, scope: Scope
    ) -> list[tuple[Node, str | None, Scope]]:
        inner = Scope("block", node, scope)
        entered: list[tuple[Node, str | None, Scope]] = []
        first = True
        for child, field in children_of(node):
            if child.type == "for_in_clause" and first:
                first = False
                self.bind_pattern(child.child_by_field_name("left"), inner)
                for part, name in children_of(child):
                    entered.append((part, name, scope if name == "right" else inner))
            else:
                entered.append((child, field, inner))
        return entered

    def _type_scope(self, node: Node, scope: Scope) -> Scope:
        """Return a scope with the type parameters of a generic function or class."""
        parameters = node.child_by_field_name("type_parameters")
        if parameters is None:
            return scope
        around = Scope("type", node, scope)
        self._bind_type_parameters(parameters, around)
        return around

    def _bind_type_parameters(self, parameters: Node, scope: Scope) -> None:
        for one in parameters.named_children:
            inner = one
            while inner.type != "identifier" and inner.named_children:
                inner = inner.named_children[0]
            self.bind(inner, scope)

    def _enter_type_alias(self, node: Node, scope: Scope) -> list[tuple[Node, str | None, Scope]]:
        left = node.child_by_field_name("left")
        inner = Scope("type", node, scope)
        name = left
        while name is not None and name.type != "identifier" and name.named_children:
            name = name.named_children[0]
        self.bind(name, scope)
        if left is not None and left.named_children:
            generic = left.named_children[0]
            if generic.type == "generic_type" and len(generic.named_children) > 1:
                self._bind_type_parameters(generic.named_children[1], inner)
        return [(one, field, inner) for one, field in children_of(node)]

    def _enter_dotted(self, node: Node, scope: Scope) -> list[tuple[Node, str | None, Scope]]:
        """Take the first name of `a.b.c`; the others are attributes. Those of modules are none."""
        parent = self.parent
        if parent is not None and parent.type in ("aliased_import", "future_import_statement"):
            return []
        if parent is not None and parent.type == "import_from_statement":
            module = parent.child_by_field_name("module_name")
            if module is not None and module.start_byte == node.start_byte:
                return []
        if parent is not None and parent.type == "relative_import":
            return []
        return [(node.named_children[0], None, scope)] if node.named_children else []

    def _bind_import(self, node: Node, scope: Scope) -> None:
        for one in node.children_by_field_name("name"):
            if one.type == "aliased_import":
                self.bind(one.child_by_field_name("alias"), scope)
            elif one.named_children:
                form: Form = "import" if len(one.named_children) == 1 else "fixed"
                self.bind(one.named_children[0], scope, 0, form)

    def _bind_case_alias(self, node: Node, scope: Scope) -> None:
        """Bind the name after `as` in a case; in `with` and `except` it is a target of its own."""
        if node.parent is not None and node.parent.type == "case_pattern" and node.named_children:
            last = node.named_children[-1]
            if last.type == "identifier":
                self.bind(last, scope)

    def _bind_captures(self, node: Node, scope: Scope) -> None:
        """Bind the names that a case captures: plain names, and those after a star."""
        for one in node.named_children:
            if one.type == "identifier" and node.type == "splat_pattern":
                self.bind(one, scope)
            elif one.type == "dotted_name" and len(one.named_children) == 1:
                if node.type != "splat_pattern" and self.source.text(one) != "_":
                    self.bind(one.named_children[0], scope)
            elif one.type == "keyword_pattern" and len(one.named_children) > 1:
                value = one.named_children[1]
                if value.type == "dotted_name" and len(value.named_children) == 1:
                    self.bind(value.named_children[0], scope)
