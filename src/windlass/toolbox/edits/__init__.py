"""Precise edits of source files: by syntax node, by anchor, by symbol, and by exact text."""
