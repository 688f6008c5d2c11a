"""Python programs whose effects are recorded."""
