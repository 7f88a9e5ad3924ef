"""Tools around tools: how one call runs."""
