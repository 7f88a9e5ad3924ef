"""Compaction: a long run's older messages leave the view, on the record."""
