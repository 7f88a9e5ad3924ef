"""Benchmarks: what a turn costs beside a loop written by hand. `make bench` runs them."""
