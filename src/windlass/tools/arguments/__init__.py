"""Arguments of tool calls: validated and repaired."""
