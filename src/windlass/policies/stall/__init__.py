"""Stalls: calls that a run repeats, and what is done about them."""
