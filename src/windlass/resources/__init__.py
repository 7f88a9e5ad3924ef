"""Resources: typed rows in the runtime's store, with verbs as tools, roles and audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.resources.audit import AuditRow as AuditRow
    from windlass.resources.conversation_rows import ConversationResource as ConversationResource
    from windlass.resources.conversation_rows import ConversationTurn as ConversationTurn
    from windlass.resources.fields import field as field
    from windlass.resources.query import Page as Page
    from windlass.resources.query import Query as Query
    from windlass.resources.registry import Handle as Handle
    from windlass.resources.registry import Resources as Resources
    from windlass.resources.registry import export as export
    from windlass.resources.resource import Resource as Resource
    from windlass.resources.tx import ResourceTx as ResourceTx
    from windlass.resources.undo import CannotUndo as CannotUndo
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "AuditRow": "resources.audit",
            "CannotUndo": "resources.undo",
            "ConversationResource": "resources.conversation_rows",
            "ConversationTurn": "resources.conversation_rows",
            "Handle": "resources.registry",
            "Page": "resources.query",
            "Query": "resources.query",
            "Resource": "resources.resource",
            "ResourceTx": "resources.tx",
            "Resources": "resources.registry",
            "export": "resources.registry",
            "field": "resources.fields",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "AuditRow",
    "CannotUndo",
    "ConversationResource",
    "ConversationTurn",
    "Handle",
    "Page",
    "Query",
    "Resource",
    "ResourceTx",
    "Resources",
    "export",
    "field",
]
