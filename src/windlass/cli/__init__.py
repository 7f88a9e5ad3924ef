"""The command line `windlass`. Each command loads what it needs when it runs, so `--help` is quick."""
