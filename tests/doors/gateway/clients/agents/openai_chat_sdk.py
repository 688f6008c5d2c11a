"""The agent loop from the official SDK's documents: Chat Completions, streamed."""

import json
import subprocess
import sys

import openai

TOOL = {"type": "function", "function": {"name": "bash", "description": "Runs a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}  # fmt: skip

client = openai.OpenAI()
told = [{"role": "system", "content": "You work in a folder."}, {"role": "user", "content": sys.argv[1]}]
while True:
    with client.chat.completions.stream(
        model="gpt-5.6-sol", messages=told, tools=[TOOL], stream_options={"include_usage": True}
    ) as stream:
        reply = stream.get_final_completion().choices[0].message
    told.append(reply.model_dump(exclude_none=True, exclude={"parsed"}))
    if not reply.tool_calls:
        print(reply.content)
        break
    for call in reply.tool_calls:
        command = json.loads(call.function.arguments)["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        told.append({"role": "tool", "tool_call_id": call.id, "content": done.stdout})
