"""The vendors' own clients and our adapters, given the same question and the same bytes to read."""
