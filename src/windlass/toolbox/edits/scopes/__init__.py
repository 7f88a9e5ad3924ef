"""Which identifiers of a file are the same symbol, by the scope rules of each language."""
