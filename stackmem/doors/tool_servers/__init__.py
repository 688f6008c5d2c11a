"""The client of the user's MCP servers."""
