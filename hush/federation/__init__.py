"""Who talks to clients: simulated blocks, sessions, channels, messages. May import catalogue, parts and core."""
