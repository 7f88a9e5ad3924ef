"""Search among deferred tools."""
