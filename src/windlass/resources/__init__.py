"""Resources: typed rows in the runtime's store, whose verbs are tools under permissions and audit."""
