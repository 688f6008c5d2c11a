"""The agent loop from the official SDK's documents: Messages, streamed, with a tool and cache marks."""

import subprocess
import sys

import anthropic

TOOL = {"name": "bash", "description": "Runs a command.", "input_schema": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}  # fmt: skip

client = anthropic.Anthropic()
told = [{"role": "user", "content": sys.argv[1]}]
while True:
    with client.messages.stream(
        model="claude-sonnet-5-5", max_tokens=1_000, tools=[TOOL], messages=told, cache_control={"type": "ephemeral"},
        system="You work in a folder.",
    ) as stream:  # fmt: skip
        reply = stream.get_final_message()
    told.append({"role": "assistant", "content": reply.content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        print(reply.content[0].text)
        break
    told.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": subprocess.run(
            call.input["command"], shell=True, capture_output=True, text=True, check=False).stdout}
        for call in calls]})  # fmt: skip
