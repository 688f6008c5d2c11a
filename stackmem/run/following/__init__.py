"""News for a run between two steps, and the user's folder as the runs of a conversation know it."""
