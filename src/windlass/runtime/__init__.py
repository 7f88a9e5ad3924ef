"""The interfaces of a Runtime beside its models: its audit."""
