"""What a conversation with a user keeps: the user's standing words, the log of earlier requests, and the search."""
