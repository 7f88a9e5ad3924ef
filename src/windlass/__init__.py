"""Windlass runs LLM agents one bounded, judged, recorded turn at a time."""
