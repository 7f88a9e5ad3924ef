"""The audit of a Runtime: seals, anchors, queries, and verification."""
