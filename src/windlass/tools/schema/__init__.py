"""JSON Schemas of Python types."""
