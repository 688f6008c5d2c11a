"""Seeded generators of tasks: workspaces with planted facts, hidden checks and a manifest."""
