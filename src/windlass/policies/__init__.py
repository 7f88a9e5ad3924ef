"""Behaviours of a run, one policy each."""
