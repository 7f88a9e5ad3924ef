"""One module per domain: its tools, its honest tasks and the injections into them."""
