"""Providers, capabilities and prices of models, shipped and configured."""
