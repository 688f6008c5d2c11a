"""``stackmem ui``: pages over runs and benches, for one person on this machine."""
