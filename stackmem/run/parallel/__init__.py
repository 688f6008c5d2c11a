"""Parallel frames: each is played as a run of its own, in a thread of the parent's process."""
