"""Stores whose writes go through a thread of their own."""
