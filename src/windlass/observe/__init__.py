"""Observers of a run: OpenTelemetry, callbacks, tool sinks, transcript files."""
