"""Seeded generators of tasks: workspaces with planted facts, hidden checks and a manifest."""

from .make import WORLDS, design, make, make_task

__all__ = ["WORLDS", "design", "make", "make_task"]
