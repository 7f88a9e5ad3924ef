"""The MCP client: servers of a run or a `Runtime`, whose tools become `<server>__<tool>`."""
