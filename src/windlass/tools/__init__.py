"""What a model may call: tools, how they are made, checked and run."""
