"""Single model calls outside a run."""
