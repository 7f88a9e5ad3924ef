"""The tool `fetch_url`: which addresses it may contact, the request, and HTML as text."""
