"""The single entry point for untrusted files: opened beneath a directory, with limits, and validated by type."""
