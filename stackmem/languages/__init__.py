"""Interpreters for the program languages, written as generators that yield effects and receive the answers."""
