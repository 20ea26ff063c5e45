"""Who talks to clients: simulated blocks, sessions, channels, messages. May import parts and what is below."""
