"""`windlass lint`: what to mend in sources, settings, registries and histories."""
