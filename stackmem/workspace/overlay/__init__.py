"""A layer over a folder: how it is mounted, and how programs and file tools see it."""
