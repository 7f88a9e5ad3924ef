"""The entry points that run agents."""
