"""Requests to a model server apart from the run's own: probes, token counts and advice."""
