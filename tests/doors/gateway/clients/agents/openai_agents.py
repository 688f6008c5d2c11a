"""openai-agents with a shell, over Responses."""

import subprocess
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool
def bash(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


worker = Agent("worker", instructions="You work in a folder.", model="gpt-5.6-sol", tools=[bash])
print(Runner.run_sync(worker, sys.argv[1], max_turns=40).final_output)
