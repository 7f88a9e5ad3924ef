"""Pictures of a session that are drawn again while its run is under way."""
