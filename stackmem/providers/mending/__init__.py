"""Keeps a run going when a provider refuses a request or a model writes something slightly wrong."""
