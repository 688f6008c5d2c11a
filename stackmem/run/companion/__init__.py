"""What the user and a project add to a run: skills, permission rules and hooks."""
