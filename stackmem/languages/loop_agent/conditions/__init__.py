"""Conditions in a small subset of JavaScript: parsing and evaluation."""
