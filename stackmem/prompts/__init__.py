"""Prompt text with ``{{slots}}``; ``harness/assemble.py`` reads it, ``RunStarted`` records what was made of it."""
