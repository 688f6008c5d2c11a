"""Jobs: commands that run in the background while the agent goes on."""
