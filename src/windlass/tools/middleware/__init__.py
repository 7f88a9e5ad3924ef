"""Wrappers around tools: how one call runs."""
