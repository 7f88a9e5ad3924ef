"""Who may do what: permissions, approvals, roles, taint."""
