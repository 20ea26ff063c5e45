"""Who talks to clients: simulated blocks, sessions, channels, messages, kits. May import parts and what is below."""
