"""Sessions of a store: list, read, fork, seed, approve, undo."""
