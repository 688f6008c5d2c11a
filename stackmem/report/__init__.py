"""Pictures of runs, made from their traces."""
