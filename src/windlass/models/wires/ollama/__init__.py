"""Ollama's chat API."""
