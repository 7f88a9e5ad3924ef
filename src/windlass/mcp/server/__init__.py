"""The MCP server: tools, resources, prompts and agents of an application for outside clients."""
