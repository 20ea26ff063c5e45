"""Every scheme by name, one module for each paper, and what a user may set. May import parts and what is below."""
