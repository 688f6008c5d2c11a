"""``stackmem chat``: the conversation at the terminal."""
