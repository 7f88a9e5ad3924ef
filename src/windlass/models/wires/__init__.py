"""Wire formats of providers: a folder for each, and the parts that they share."""
