"""pydantic-ai with a shell, over Messages."""

import subprocess
import sys

from pydantic_ai import Agent

agent = Agent("anthropic:claude-sonnet-5-5", instructions="You work in a folder.")


@agent.tool_plain
def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


print(agent.run_sync(sys.argv[1]).output)
