"""What a person's folder brings to work with: its environments, test command and lock files."""
