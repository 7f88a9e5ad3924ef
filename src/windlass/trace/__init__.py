"""The trace of a session: what happened when, side by side, as text or as a page."""
