"""relay: reads feeds from an inbox, remembers what it has seen, and passes on what is new."""
