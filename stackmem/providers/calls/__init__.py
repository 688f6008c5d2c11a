"""Tool calls that a model writes in other ways than its native form, and their repair."""
