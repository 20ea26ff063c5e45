"""Randomness: public and secret seeds, and noise from one cipher's key stream. Imports errors alone."""
