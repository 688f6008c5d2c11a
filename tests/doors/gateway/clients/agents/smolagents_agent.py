"""smolagents: a tool-calling agent, over Chat Completions."""

import os
import subprocess
import sys

from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def bash(command: str) -> str:
    """Runs a command.

    Args:
        command: The command.
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


model = OpenAIModel("gpt-5.6-sol", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
print(ToolCallingAgent([bash], model, max_steps=30).run(sys.argv[1]))
