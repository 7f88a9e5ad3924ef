"""The limit on turns, fixed or adaptive."""
