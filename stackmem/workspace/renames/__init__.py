"""Renaming of folders in an overlay, which the kernel refuses to an ordinary user."""
