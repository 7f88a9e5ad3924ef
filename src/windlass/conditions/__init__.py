"""Conditions that wake a parked run, and the specs of triggers."""
