"""An overlay over a folder: how it is mounted, and how programs and file tools access it."""
