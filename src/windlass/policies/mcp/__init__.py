"""MCP servers of a run: their tools, their lists as they change, and their questions."""
