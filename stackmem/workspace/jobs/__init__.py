"""Processes that run in the background across commands, within the limits of one command."""
