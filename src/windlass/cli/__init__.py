"""The command line `windlass`. Commands are imported when they run: `--help` is quick."""
