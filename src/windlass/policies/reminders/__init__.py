"""Reminders from the beginning of a session."""
