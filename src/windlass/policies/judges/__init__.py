"""Judges of finished work and of single steps."""
