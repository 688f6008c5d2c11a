"""What a person's own check runs and imports, and what its tests came to, so that its exit code can be believed."""
