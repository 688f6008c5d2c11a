"""Examines this machine and the servers of models, for ``stackmem doctor``."""
