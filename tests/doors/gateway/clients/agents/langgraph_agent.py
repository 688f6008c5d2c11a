"""LangGraph's prebuilt agent with a shell, over Messages."""

import subprocess
import sys

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool


@tool
def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


model = ChatAnthropic(model="claude-sonnet-5-5", max_tokens=1_000)
agent = create_agent(model, [bash], system_prompt="You work in a folder.")
done = agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]}, {"recursion_limit": 80})
print(done["messages"][-1].content)
