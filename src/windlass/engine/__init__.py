"""From options to a plan, a driven run, its result and its stream."""
