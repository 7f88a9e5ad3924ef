"""Three long tasks, and what they cost with each way of keeping the view: tokens, dollars, facts."""
