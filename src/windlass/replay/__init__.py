"""Recorded runs: replay one, compare requests, show what the model saw."""
