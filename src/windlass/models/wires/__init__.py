"""One file for each wire format, and one for what its replies look like."""
