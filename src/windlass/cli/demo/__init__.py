"""The demo: a refund that is killed in the middle, resumed, and made exactly once."""
