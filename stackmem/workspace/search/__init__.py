"""Searches files inside the sandbox."""
