"""`windlass triggers`, and `windlass sessions wake`."""
