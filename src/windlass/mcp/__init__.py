"""The Model Context Protocol: servers that runs use (`client`), and our tools as a server (`server`).

Needs `windlass[mcp]`. The SDK is imported only when a server is started or served.
"""
