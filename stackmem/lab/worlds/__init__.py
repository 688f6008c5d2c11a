"""Seeded generators of tasks: workspaces with planted facts, hidden checks and a manifest."""

from .make import HORIZONS, MAX_NOISE, SHIPPED, WORLDS, description, design, families, make, make_task, manifest, tasks

__all__ = [
    "HORIZONS",
    "MAX_NOISE",
    "SHIPPED",
    "WORLDS",
    "description",
    "design",
    "families",
    "make",
    "make_task",
    "manifest",
    "tasks",
]
