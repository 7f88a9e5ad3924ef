"""The audit of a Runtime: seals, anchors, queries, and verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.audit.anchors import Anchor as Anchor
    from windlass.audit.query import AuditEntry as AuditEntry
    from windlass.audit.query import AuditPage as AuditPage
    from windlass.audit.query import AuditQuery as AuditQuery
    from windlass.audit.verify import AuditReport as AuditReport
    from windlass.audit.verify import Finding as Finding
    from windlass.store.model_calls import ModelCall as ModelCall
    from windlass.store.seals import Seal as Seal
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "Anchor": "audit.anchors",
            "AuditEntry": "audit.query",
            "AuditPage": "audit.query",
            "AuditQuery": "audit.query",
            "AuditReport": "audit.verify",
            "Finding": "audit.verify",
            "ModelCall": "store.model_calls",
            "Seal": "store.seals",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "Anchor",
    "AuditEntry",
    "AuditPage",
    "AuditQuery",
    "AuditReport",
    "Finding",
    "ModelCall",
    "Seal",
]
