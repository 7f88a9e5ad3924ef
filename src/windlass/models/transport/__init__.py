"""Bytes to and from a provider: HTTP, framing, and errors."""
