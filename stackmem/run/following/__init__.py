"""What a run reads between two steps, and what the runs of a conversation know about the user's folder."""
