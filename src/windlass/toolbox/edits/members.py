"""Uses of a member that are certain without types: through `self`, `this` or a receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from windlass.toolbox.edits.outline import Declared
from windlass.toolbox.edits.source import Source, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_ACCESS: Final = {
    # language: (node of an access, field of the object, field of the member, what the object is)
    "python": ("attribute", "object", "attribute", ("self", "cls")),
    "javascript": ("member_expression", "object", "property", ("this",)),
    "typescript": ("member_expression", "object", "property", ("this",)),
    "tsx": ("member_expression", "object", "property", ("this",)),
    "rust": ("field_expression", "value", "field", ("self",)),
}
_CLASSES: Final = frozenset(
    {"abstract_class_declaration", "class", "class_declaration", "class_definition", "impl_item"}
)


def find_member_names(source: Source, node: Node, name: str) -> list[Node]:
    """Return the nodes that name a member of the class around a node through its own object."""
    access = _ACCESS.get(source.language.name)
    if access is None:
        return []
    owner: Node | None = node
    while owner is not None and owner.type not in _CLASSES:
        owner = owner.parent
    if owner is None:
        return []
    kind, target_field, member_field, own = access
    found: list[Node] = []
    stack = [owner]
    while stack:
        one = stack.pop()
        if one.type in _CLASSES and one != owner:
            continue  # another `this`
        if one.type == kind:
            target = one.child_by_field_name(target_field)
            member = one.child_by_field_name(member_field)
            if target is not None and member is not None and source.text(target) in own:
                if source.text(member) == name:
                    found.append(member)
        stack.extend(one.named_children)
    return found


def find_receiver_names(source: Source, declared: Declared) -> list[Node]:
    """Return `r.Total` in the methods of a Go type whose receiver is called r."""
    if len(declared.path) < 2:
        return []
    owner = declared.path[-2].name
    found: list[Node] = []
    for method in source.root.named_children:
        receiver = method.child_by_field_name("receiver")
        if receiver is None:
            continue
        words = source.text(receiver).strip("() ").split()
        if len(words) < 2 or words[-1].lstrip("*").partition("[")[0] != owner:
            continue
        for node in walk(method):
            if node.type != "selector_expression":
                continue
            target, field = node.child_by_field_name("operand"), node.child_by_field_name("field")
            if target is not None and field is not None and source.text(target) == words[0]:
                if source.text(field) == declared.step.name:
                    found.append(field)
    return found
