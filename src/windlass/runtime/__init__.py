"""The public `Runtime` and its audit interface."""
