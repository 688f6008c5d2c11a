"""Keeps a run and the user's folder together while both change."""
