"""The commands of `windlass workflow`."""
