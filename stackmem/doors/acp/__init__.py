"""stackmem as an agent for editors: Agent Client Protocol, version 1, over stdin and stdout."""
