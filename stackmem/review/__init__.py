"""What shows, measures, lists, redacts and removes runs that are on disk."""
