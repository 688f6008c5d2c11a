"""What goes with a run: skills, permission rules and hooks of the user and the project, the first look at its files."""
