"""The loop: turns, calls, verdicts, budgets."""
