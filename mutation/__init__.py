"""Does every option bite? Each is taken out in turn, and a story must notice: `make mutate-options`."""
