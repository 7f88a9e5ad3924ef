"""Runs with MCP servers: their plan is completed when the servers have said what they offer."""
