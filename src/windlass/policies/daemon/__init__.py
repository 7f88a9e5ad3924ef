"""Daemons: loops that become idle where others end, and wake up when something happens."""
