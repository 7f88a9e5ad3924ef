"""Taint: private data, untrusted content and ways out in one session."""
