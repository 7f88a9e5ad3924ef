"""The audit of a Runtime: what is sealed and anchored, what can be asked, and what was tampered with."""
