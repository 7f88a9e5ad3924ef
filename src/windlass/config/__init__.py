"""The settings of `windlass.toml`: loaded, checked, and trusted or not."""
