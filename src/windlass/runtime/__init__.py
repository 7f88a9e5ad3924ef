"""The public `Runtime` and its audit interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.runtime.audit import Audit as Audit
    from windlass.runtime.audit import audit_query as audit_query
    from windlass.runtime.audit import audit_seal as audit_seal
    from windlass.runtime.audit import audit_verify as audit_verify
    from windlass.runtime.runtime import Runtime as Runtime
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "Audit": "runtime.audit",
            "Runtime": "runtime.runtime",
            "audit_query": "runtime.audit",
            "audit_seal": "runtime.audit",
            "audit_verify": "runtime.audit",
        },
    )

# Written by scripts/make_stub.py.
__all__ = ["Audit", "Runtime", "audit_query", "audit_seal", "audit_verify"]
