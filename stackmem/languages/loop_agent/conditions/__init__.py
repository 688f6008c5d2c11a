"""Conditions, as a small part of JavaScript: text, tree, value."""
