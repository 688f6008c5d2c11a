"""Keeps a conversation and the user's folder together: what was applied, and what the user changed."""
