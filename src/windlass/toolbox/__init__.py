"""Built-in tools: files, search and commands inside a workspace."""
