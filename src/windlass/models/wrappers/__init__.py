"""Models around a model: each changes one thing about a call and keeps no run state."""
