"""Skills: instructions that join a run when what it is about calls for them."""
