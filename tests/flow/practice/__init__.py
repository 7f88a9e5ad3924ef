"""Practice cases: one module per domain, by people who do not know the policy."""
