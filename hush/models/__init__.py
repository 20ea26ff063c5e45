"""Networks, losses, metrics, flat weights and public features. May import data, random and errors."""
