"""`windlass daemon`: agents that wait for events."""
