"""Transport to a provider: HTTP, framing, and errors."""
