"""stackmem as an agent of the Agent Client Protocol, version 1, over stdin and stdout: what an editor talks with."""
