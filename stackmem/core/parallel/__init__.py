"""Frames that run in parallel: their facts and the rules of the group that they form."""
