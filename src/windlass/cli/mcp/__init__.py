"""The commands of `windlass mcp`."""
