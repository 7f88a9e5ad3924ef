"""`windlass worker` and `windlass fleet`: processes that drive submitted runs."""
