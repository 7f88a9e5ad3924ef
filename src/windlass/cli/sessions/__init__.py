"""`windlass sessions`: what is kept, and what to do with it."""
