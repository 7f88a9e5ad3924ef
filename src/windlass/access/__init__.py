"""Access control: permissions, approvals, roles, taint."""
