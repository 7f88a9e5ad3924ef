"""Projection: failed or unreferenced messages leave the view; the journal keeps them."""
