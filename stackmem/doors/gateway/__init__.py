"""A recording proxy between any agent and its provider: forwards requests unchanged and records them as runs."""
