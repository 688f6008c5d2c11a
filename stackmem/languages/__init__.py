"""Interpreters as generators: they yield effects and are sent the answers."""
