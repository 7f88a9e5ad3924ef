"""Resources: typed rows in the runtime's store, with verbs as tools, roles and audit."""
