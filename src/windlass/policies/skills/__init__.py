"""Skills: instructions that join a run when its task calls for them."""
