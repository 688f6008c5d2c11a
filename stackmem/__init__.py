"""stackmem: a coding agent that manages its own working memory."""
