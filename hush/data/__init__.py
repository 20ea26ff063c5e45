"""Data: the sets by name or by file, their fetching, and their partition over clients. May import random and errors."""
