"""Search in a workspace: the tools `grep` and `glob`."""
