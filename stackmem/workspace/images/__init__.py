"""Root file systems for commands, built from Dockerfiles on base systems that the user provides."""
