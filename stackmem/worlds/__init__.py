"""Seeded generators of tasks: workspaces with planted facts, hidden checks and a manifest."""

from .make import WORLDS, about, design, families, make, make_task, manifest

__all__ = ["WORLDS", "about", "design", "families", "make", "make_task", "manifest"]
