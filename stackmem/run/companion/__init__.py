"""What goes with a run: skills, permission rules, hooks, the kept heap, the git repository, a first look at files."""
