"""Images of tasks: built from Dockerfiles, from archives of root file systems, or by a container engine."""
