"""Compaction: what a long run no longer needs in full leaves the view, on the record."""
