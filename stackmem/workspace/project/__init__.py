"""The environment of a user's folder: virtual environments, test commands and lock files."""
