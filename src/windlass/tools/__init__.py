"""Tools that a model may call: how they are built, checked and run."""
