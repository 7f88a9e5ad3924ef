"""Models that hold a model: each does one thing about one call and remembers nothing of a run."""
