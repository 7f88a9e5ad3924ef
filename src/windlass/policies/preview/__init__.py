"""Previews of effects, and runs by an approved plan."""
