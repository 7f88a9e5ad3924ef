"""Windlass."""

VALUE = 9**9**9  # to evaluate it takes for ever
