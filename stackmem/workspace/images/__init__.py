"""Roots of their own for commands: built from Dockerfiles, over base systems that the person names."""
