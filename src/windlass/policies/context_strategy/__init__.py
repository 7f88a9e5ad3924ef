"""Strategies that keep the view small: window, summary, custom."""
