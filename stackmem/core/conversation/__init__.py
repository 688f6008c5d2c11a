"""The memory of a conversation with a user: standing words, the log of earlier requests, and the search."""
