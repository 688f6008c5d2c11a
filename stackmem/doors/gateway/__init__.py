"""A recorder between any agent and its provider: what passes is forwarded as it came, and kept as runs."""
