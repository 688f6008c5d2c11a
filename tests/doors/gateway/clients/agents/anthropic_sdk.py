"""The agent loop from the official SDK's documents: Messages, streamed, with thinking, a tool and cache marks."""

import os
import subprocess
import sys

import anthropic

TOOL = {"name": "bash", "description": "Runs a command.", "input_schema": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}  # fmt: skip

MODEL = os.environ.get("AGENT_MODEL", "claude-sonnet-5-5")
THINKING = {"type": "enabled", "budget_tokens": 1_024} if "AGENT_MODEL" in os.environ else {"type": "adaptive"}

client = anthropic.Anthropic()
told = [{"role": "user", "content": sys.argv[1]}]
while True:
    with client.messages.stream(
        model=MODEL, max_tokens=4_000, thinking=THINKING, tools=[TOOL], messages=told,
        cache_control={"type": "ephemeral"}, system="You work in a folder.",
    ) as stream:  # fmt: skip
        reply = stream.get_final_message()
    told.append({"role": "assistant", "content": reply.content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        print(reply.content[-1].text)
        break
    told.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": subprocess.run(
            call.input["command"], shell=True, capture_output=True, text=True, check=False).stdout}
        for call in calls]})  # fmt: skip
