"""Tasks and injections against which information flow control is measured."""
