"""Supports tasks: builds their images, checks that they are sound, and rates imported tasks."""
