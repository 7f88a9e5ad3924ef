"""The picture of a session: what happened when, side by side. Pure; drawn as text or as a page."""
