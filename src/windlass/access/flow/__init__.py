"""Information flow: roles of arguments, origins of values, and when somebody must be asked."""
