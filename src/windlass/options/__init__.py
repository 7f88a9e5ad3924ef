"""How options are declared and checked; no option of its own."""
