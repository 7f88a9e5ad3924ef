"""Secrets, and how they are kept out of what is written."""
