"""Scopes, bindings and the identifiers that belong to them; what all languages share.

A resolver walks the tree once. Each node may open a scope and declare names; identifiers are noted
with the scope in which they stand. Then each is given to the innermost binding that it can see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

from windlass.toolbox.edits.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

Form: TypeAlias = Literal["plain", "import", "shorthand", "export", "fixed"]
ScopeKind: TypeAlias = Literal["file", "function", "class", "block", "type"]
Namespace: TypeAlias = Literal["", "method", "type", "namespace"]


class Scope:
    """A part of a file in which names are looked up."""

    __slots__ = ("bindings", "kind", "node", "outside", "parent")

    def __init__(self, kind: ScopeKind, node: Node, parent: Scope | None) -> None:
        self.kind, self.node, self.parent = kind, node, parent
        self.bindings: dict[tuple[Namespace, str], list[Binding]] = {}
        self.outside: dict[str, Scope | None] = {}  # names that are declared to be another scope's

    def function(self) -> Scope:
        """Return the nearest function around, or the file."""
        scope = self
        while scope.kind not in ("function", "file") and scope.parent is not None:
            scope = scope.parent
        return scope

    def innermost_class(self) -> Scope:
        """Return the nearest class around, or the scope itself."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope or self


class Occurrence(NamedTuple):
    """An identifier in the text."""

    start: int
    end: int
    name: str
    form: Form
    declares: bool


class Binding:
    """A symbol: one name in one scope, with every identifier that is it."""

    __slots__ = ("name", "occurrences", "scope", "visible_from")

    def __init__(self, name: str, scope: Scope | None, visible_from: int) -> None:
        self.name, self.scope, self.visible_from = name, scope, visible_from
        self.occurrences: list[Occurrence] = []

    @property
    def is_declared(self) -> bool:
        """Whether the file declares it; otherwise it comes from elsewhere."""
        return self.scope is not None and any(one.declares for one in self.occurrences)


class _Declaration(NamedTuple):
    scope: Scope
    visible_from: int
    form: Form
    namespace: Namespace


class _Use(NamedTuple):
    occurrence: Occurrence
    scope: Scope
    namespace: Namespace


class Resolver:
    """The base of the resolvers: tables and hooks that a language sets."""

    identifiers: ClassVar[frozenset[str]] = frozenset({"identifier"})
    scopes: ClassVar[Mapping[str, ScopeKind]] = {}
    ignored: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    """(parent type, field): identifiers there name something else than a symbol in scope."""
    outer: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    """(node type, field): children that belong to the scope around the node."""
    shadows: ClassVar[bool] = False
    """Whether a second declaration in the same scope is another symbol."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.file = Scope("file", source.root, None)
        self.declared: dict[int, _Declaration] = {}
        self.uses: list[_Use] = []
        self.bindings: list[Binding] = []
        self.unresolved: dict[str, Binding] = {}
        # Of the node that is being looked at. `node.parent` searches the whole tree from its root.
        self.parent: Node | None = None

    def run(self) -> list[Binding]:
        """Return every symbol of the file, those that it does not declare included."""
        root: Node = self.source.root
        stack: list[tuple[Node, str | None, Scope, Node | None]] = [(root, None, self.file, None)]
        while stack:
            node, field, scope, self.parent = stack.pop()
            if node.type in self.identifiers and node.is_named:
                self.note(node, field, scope)
                continue
            stack += [(*one, node) for one in reversed(self.enter(node, scope))]
        for use in self.uses:
            if not use.occurrence.declares:
                self._find(use).occurrences.append(use.occurrence)
        for one in self.bindings:
            one.occurrences.sort()
        return [*self.bindings, *self.unresolved.values()]

    # ----------------------------------------------------------------- hooks

    def enter(self, node: Node, scope: Scope) -> list[tuple[Node, str | None, Scope]]:
        """Declare what a node declares; return its children with their fields and scopes."""
        kind = self.scopes.get(node.type)
        inner = scope
        if kind is not None and self.parent is not None and self.opens(node):
            inner = Scope(kind, node, scope)
        self.declare(node, scope, inner)
        return [
            (child, field, scope if field and (node.type, field) in self.outer else inner)
            for child, field in children_of(node)
        ]

    def opens(self, node: Node) -> bool:
        """Check whether a node of a type with a scope really opens one here."""
        return True

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Declare the names of one node with `bind`."""

    def pattern_names(self, node: Node) -> Iterator[tuple[Node, Form]]:
        """Yield the identifiers that a pattern binds."""
        yield node, "plain"

    def namespace_of(self, node: Node, field: str | None) -> Namespace:
        """Return the namespace in which an identifier is looked up."""
        return ""

    def form_of(self, node: Node, field: str | None) -> Form:
        """Return how a use is written: `{x}` needs `{x: y}` when it is renamed."""
        return "plain"

    def fallback(self, namespace: Namespace) -> tuple[Namespace, ...]:
        """Return further namespaces in which a name is looked up."""
        return ()

    def lookup_scope(self, node: Node, scope: Scope) -> Scope:
        """Return the scope in which the look-up of a use begins."""
        return scope

    def sees(self, scope: Scope, origin: Scope) -> bool:
        """Check whether names of a scope are visible from inside `origin`."""
        return True

    # ----------------------------------------------------------------- helpers

    def bind(
        self,
        node: Node | None,
        scope: Scope,
        visible_from: int = 0,
        form: Form = "plain",
        namespace: Namespace = "",
    ) -> None:
        """Declare the identifier of a node in a scope."""
        if node is not None:
            self.declared[node.start_byte] = _Declaration(scope, visible_from, form, namespace)

    def bind_pattern(self, node: Node | None, scope: Scope, visible_from: int = 0) -> None:
        """Declare all identifiers that a pattern binds."""
        if node is not None:
            for one, form in self.pattern_names(node):
                self.bind(one, scope, visible_from, form)

    def is_ignored(self, node: Node, field: str | None) -> bool:
        """Check whether an identifier is no symbol in scope."""
        parent = self.parent
        return parent is not None and field is not None and (parent.type, field) in self.ignored

    def note(self, node: Node, field: str | None, scope: Scope) -> None:
        """Note an identifier; what it belongs to is found when all declarations are known."""
        declaration = self.declared.get(node.start_byte)
        name = self.source.text(node)
        start, end = node.start_byte, node.end_byte
        if declaration is not None:
            occurrence = Occurrence(start, end, name, declaration.form, True)
            self._declare(declaration, occurrence)
        elif not self.is_ignored(node, field):
            occurrence = Occurrence(start, end, name, self.form_of(node, field), False)
            begin = self.lookup_scope(node, scope)
            self.uses.append(_Use(occurrence, begin, self.namespace_of(node, field)))

    def note_text(self, start: int, end: int, scope: Scope) -> None:
        """Note an identifier that the grammar has no node for, as in a format string."""
        name = self.source.data[start:end].decode(errors="replace")
        self.uses.append(_Use(Occurrence(start, end, name, "plain", False), scope, ""))

    def _declare(self, declaration: _Declaration, occurrence: Occurrence) -> None:
        scope = declaration.scope
        name = occurrence.name
        if name in scope.outside:
            found = scope.outside[name]
            if found is None:
                self.uses.append(_Use(occurrence._replace(declares=False), scope, ""))
                return
            scope = found
        there = scope.bindings.setdefault((declaration.namespace, name), [])
        for one in there:
            if not self.shadows or one.visible_from == declaration.visible_from:
                one.occurrences.append(occurrence)
                one.visible_from = min(one.visible_from, declaration.visible_from)
                return
        made = Binding(name, scope, declaration.visible_from)
        made.occurrences.append(occurrence)
        there.append(made)
        self.bindings.append(made)

    def _find(self, use: _Use) -> Binding:
        name, start = use.occurrence.name, use.occurrence.start
        for namespace in (use.namespace, *self.fallback(use.namespace)):
            scope: Scope | None = use.scope
            while scope is not None:
                if name in scope.outside:
                    scope = scope.outside[name] or scope.parent
                    continue
                there = scope.bindings.get((namespace, name))
                if there and self.sees(scope, use.scope):
                    seen = [one for one in there if one.visible_from <= start]
                    if seen:
                        return max(seen, key=lambda one: one.visible_from)
                scope = scope.parent
        return self.unresolved.setdefault(name, Binding(name, None, 0))


def children_of(node: Node) -> list[tuple[Node, str | None]]:
    """Return the named children of a node with the names of their fields."""
    cursor = node.walk()
    found: list[tuple[Node, str | None]] = []
    if cursor.goto_first_child():
        while True:
            child = cursor.node
            if child is not None and child.is_named:
                found.append((child, cursor.field_name))
            if not cursor.goto_next_sibling():
                break
    return found


def has_token(node: Node, *tokens: str) -> bool:
    """Check whether a token such as `:=` is a direct child of a node."""
    return any(one.type in tokens for one in node.children if not one.is_named)
