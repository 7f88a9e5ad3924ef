"""Typed output: the schema, the request for it, and the policy that checks it."""
