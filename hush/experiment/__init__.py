"""A run from its configuration to its directory and its report. May import all rooms below it."""
