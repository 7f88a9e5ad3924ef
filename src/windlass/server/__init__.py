"""Windlass over HTTP: ASGI apps, to be run by any ASGI server or mounted in another app."""
