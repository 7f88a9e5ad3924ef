"""What the providers refuse, in their own words: the rules of a request, wire by wire.

Each file has a `check(body, …)` that raises `Rejected` for the first rule a request's body breaks. The
fake providers of `windlass.testing` answer by them, and `windlass lint` reads a saved history by them.
"""
