"""Projection: what failed, or nobody refers to any more, leaves the view; the journal keeps it."""
