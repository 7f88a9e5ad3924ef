"""Access control: permissions, approvals, roles, taint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.access.approval import ApprovalPolicy as ApprovalPolicy
    from windlass.access.approval import PolicyDecision as PolicyDecision
    from windlass.access.approval import Rule as Rule
    from windlass.access.caller import Caller as Caller
    from windlass.access.ceiling import Ceiling as Ceiling
    from windlass.access.permissions import PermissionRequest as PermissionRequest
    from windlass.access.permissions import Permissions as Permissions
    from windlass.access.permissions import path_scope as path_scope
    from windlass.access.roles import Roles as Roles
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "ApprovalPolicy": "access.approval",
            "Caller": "access.caller",
            "Ceiling": "access.ceiling",
            "PermissionRequest": "access.permissions",
            "Permissions": "access.permissions",
            "PolicyDecision": "access.approval",
            "Roles": "access.roles",
            "Rule": "access.approval",
            "path_scope": "access.permissions",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "ApprovalPolicy",
    "Caller",
    "Ceiling",
    "PermissionRequest",
    "Permissions",
    "PolicyDecision",
    "Roles",
    "Rule",
    "path_scope",
]
