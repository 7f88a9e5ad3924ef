"""The outline of a source file: every node that has a name, with its path of kinds and names."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.toolbox.edits.source import Source, trimmed_end, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTION_VALUES: Final = frozenset(
    {"arrow_function", "function_expression", "generator_function", "function"}
)
_NAMES: Final = frozenset(
    {
        "destructor_name",
        "field_identifier",
        "identifier",
        "operator_name",
        "property_identifier",
        "qualified_identifier",
        "template_function",
        "type_identifier",
    }
)
_FUNCTIONS: Final = frozenset(
    {"function_definition", "function_item", "function_declaration", "method_declaration"}
    | {"method_definition", "arrow_function", "function_expression", "lambda", "func_literal"}
    | {"closure_expression", "lambda_expression", "constructor_declaration"}
)


_BOUND_IN_PATTERNS: Final = frozenset({"identifier", "shorthand_property_identifier_pattern"})


class Step(NamedTuple):
    """One step of a path: `function:total`, or `function:total#2` for the second of that name."""

    kind: str
    name: str
    number: int = 1

    def __str__(self) -> str:
        plain = self.name.replace(".", "").replace(" ", "").replace("-", "").replace("_", "")
        name = self.name if plain.isalnum() else f'"{self.name}"'
        return f"{self.kind}:{name}" + (f"#{self.number}" if self.number > 1 else "")


class Declared(NamedTuple):
    """A node that has a name."""

    path: tuple[Step, ...]
    node: Node
    name_nodes: tuple[Node, ...]
    start: int
    """Where it begins, with its decorators, attributes and `export`."""
    end: int

    @property
    def step(self) -> Step:
        """The last step of the path."""
        return self.path[-1]

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """The path without numbers, which change when something of the same name is added."""
        return tuple([(one.kind, "" if one.kind == "item" else one.name) for one in self.path])

    def __str__(self) -> str:
        return "/".join(map(str, self.path))


def build_outline(source: Source) -> list[Declared]:
    """List the nodes of a file that have a name, in the order of the text."""
    builder = _Builder(source)
    builder.run()
    return builder.found


class _Builder:
    def __init__(self, source: Source) -> None:
        self.source, self.language = source, source.language
        self.found: list[Declared] = []
        self.counts: defaultdict[tuple[tuple[Step, ...], str, str], int] = defaultdict(int)

    def run(self) -> None:
        stack: list[tuple[Node, tuple[Step, ...], bool]] = [(self.source.root, (), False)]
        while stack:
            node, path, local = stack.pop()
            inner = path
            kind = self.language.declared.get(node.type)
            if kind is not None and node.is_named:
                for step, names in self._names(node, kind, path, local):
                    inner = self._add(node, step, names, path)
            local = local or node.type in _FUNCTIONS
            position = 0
            children: list[tuple[Node, tuple[Step, ...], bool]] = []
            if len(inner) >= _DEEPEST:
                continue
            for child in node.named_children:
                below = inner
                if node.type in _SEQUENCES and self.language.name in _DATA:
                    if child.type != "comment":
                        below = (*inner, Step("item", str(position)))
                        self._add_item(child, below)
                        position += 1
                children.append((child, below, local))
            stack.extend(reversed(children))

    def _add_item(self, node: Node, path: tuple[Step, ...]) -> None:
        end = trimmed_end(self.source.data, node.start_byte, node.end_byte)
        self.found.append(Declared(path, node, (), node.start_byte, end))

    def _add(
        self, node: Node, step: Step, names: tuple[Node, ...], path: tuple[Step, ...]
    ) -> tuple[Step, ...]:
        if node.type == "method_declaration" and (owner := _receiver(self.source, node)):
            path = (Step("type", owner),)
        key = (path, step.kind, step.name)
        self.counts[key] += 1
        whole = (*path, step._replace(number=self.counts[key]))
        start, end = span_of(self.source, node)
        self.found.append(Declared(whole, node, names, start, end))
        return whole

    def _names(
        self, node: Node, kind: str, path: tuple[Step, ...], local: bool
    ) -> list[tuple[Step, tuple[Node, ...]]]:
        """Return the names of a node; none where the grammar has the node for something else."""
        source = self.source
        match node.type:
            case "assignment":
                left = node.child_by_field_name("left")
                if local or left is None or left.type != "identifier":
                    return []
                return [(Step(kind, source.text(left)), (left,))]
            case "assignment_expression":
                return _assigned_function(source, node)
            case "block_sequence_item":
                return []  # named by its place, above
            case "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier":
                if node.child_by_field_name("body") is None:
                    return []  # only mentioned, as in `struct Cart *cart`
            case "declaration":
                return [] if local else _declarators(source, node, kind)
            case "impl_item":
                return [(Step(kind, _impl_name(source, node)), ())]
            case _ if kind == "import":
                return [(Step(kind, _import_name(source, node)), ())]
            case _ if kind in ("key", "table"):
                named = node.child_by_field_name("key") or _first_key(node)
                return [(Step(kind, _unquote(source.text(named))), (named,))] if named else []
            case "variable_declarator":
                if local and not _is_function(node):
                    return []
                kind = "function" if _is_function(node) else kind
                name = node.child_by_field_name("name")
                if name is not None and name.type in ("object_pattern", "array_pattern"):
                    bound = [one for one in walk(name) if one.type in _BOUND_IN_PATTERNS]
                    return [(Step(kind, source.text(one)), (one,)) for one in bound]
            case "var_spec" | "const_spec" if local:
                return []
            case _:
                pass
        if node.child_by_field_name("name") is not None:
            names = node.children_by_field_name("name")
            return [(Step(kind, _unquote(source.text(one))), (one,)) for one in names]
        return _declarators(source, node, kind)


_DATA: Final = ("json", "yaml", "toml")
_SEQUENCES: Final = frozenset({"array", "block_sequence", "flow_sequence"})
_DEEPEST: Final = 100  # steps of a path: a file of brackets alone has no names worth more


def span_of(source: Source, node: Node) -> tuple[int, int]:
    """Return the span of a declaration with its decorators, attributes, `export` and templates."""
    language = source.language
    top = node
    while (above := top.parent) is not None and above.type in language.wrappers:
        if above.type not in ("decorated_definition", "template_declaration", "export_statement"):
            # `var a, b`: one of several is not the whole statement
            if sum(one.type == top.type for one in above.named_children) > 1:
                break
            if any(one.type == "(" for one in above.children if not one.is_named):
                break
        top = above
    start = top.start_byte
    before = top.prev_sibling
    while before is not None and before.type in language.prefixes:
        start = before.start_byte
        before = before.prev_sibling
    return start, trimmed_end(source.data, start, top.end_byte)


def _declarators(source: Source, node: Node, kind: str) -> list[tuple[Step, tuple[Node, ...]]]:
    found: list[tuple[Step, tuple[Node, ...]]] = []
    for one in node.children_by_field_name("declarator"):
        inner: Node | None = one
        is_function = False
        while inner is not None and inner.type not in _NAMES:
            is_function = is_function or inner.type == "function_declarator"
            below = inner.child_by_field_name("declarator") or inner.child_by_field_name("name")
            if below is None and inner.type in ("reference_declarator", "parenthesized_declarator"):
                below = inner.named_children[-1] if inner.named_children else None
            inner = below
        if inner is not None:
            named = "function" if is_function and kind in ("variable", "field") else kind
            found.append((Step(named, source.text(inner)), (inner,)))
    return found


def _assigned_function(source: Source, node: Node) -> list[tuple[Step, tuple[Node, ...]]]:
    """Return the name of `exports.total = function …`."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or right.type not in (*_FUNCTION_VALUES, "class"):
        return []
    name = source.text(left)
    return [(Step("function", name), ())] if len(name) < 200 else []


def _is_function(node: Node) -> bool:
    value = node.child_by_field_name("value")
    return value is not None and value.type in _FUNCTION_VALUES


def _receiver(source: Source, node: Node) -> str | None:
    """Return the type of the receiver of a Go method."""
    receiver = node.child_by_field_name("receiver")
    if receiver is None:
        return None
    text = source.text(receiver).strip("() ").split()
    return text[-1].lstrip("*").partition("[")[0] if text else None


def _impl_name(source: Source, node: Node) -> str:
    kind, trait = node.child_by_field_name("type"), node.child_by_field_name("trait")
    name = "?" if kind is None else source.text(kind).partition("<")[0]
    return name if trait is None else f"{source.text(trait).partition('<')[0]} for {name}"


def _import_name(source: Source, node: Node) -> str:
    for field in ("module_name", "source", "path", "argument", "name"):
        named = node.child_by_field_name(field)
        if named is not None:
            return _unquote(source.text(named).partition(" as ")[0])[:200]
    words = source.text(node).removesuffix(";").split()
    return words[-1][:200] if words else "?"


def _first_key(node: Node) -> Node | None:
    for one in node.named_children:
        if one.type in ("bare_key", "quoted_key", "dotted_key"):
            return one
    return None


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] in "\"'`<" and text[-1] in "\"'`>":
        return text[1:-1]
    return text
