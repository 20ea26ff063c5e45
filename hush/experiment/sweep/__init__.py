"""A grid or a list of settings, each run in its own directory, and what they come to."""
