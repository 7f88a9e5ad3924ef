"""Handoffs: the conversation of a run goes on under another agent."""
