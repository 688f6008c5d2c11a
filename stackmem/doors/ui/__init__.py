"""``stackmem ui``: web pages over runs and benches, for one user on this machine."""
