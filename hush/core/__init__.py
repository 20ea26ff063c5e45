"""The scheme and what its parts promise, their checks, the loop of rounds. May import models and what is below."""
