"""Tools that a model finds by a search."""
