"""The way out of a sandbox to listed hosts alone: a proxy of our own, outside of it."""
