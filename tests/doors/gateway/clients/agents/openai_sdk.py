"""The agent loop from the official SDK's documents: Responses, with the whole conversation sent each time."""

import json
import subprocess
import sys

import openai

TOOL = {"type": "function", "name": "bash", "description": "Runs a command.", "strict": False, "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}  # fmt: skip

MODEL = "gpt-5.6-sol"
client = openai.OpenAI()
told = [{"role": "user", "content": sys.argv[1]}]
while True:
    reply = client.responses.create(model=MODEL, instructions="You work.", input=told, tools=[TOOL], store=False)
    told += [item.model_dump(exclude_none=True) for item in reply.output]
    calls = [item for item in reply.output if item.type == "function_call"]
    if not calls:
        print(reply.output_text)
        break
    for call in calls:
        command = json.loads(call.arguments)["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        told.append({"type": "function_call_output", "call_id": call.call_id, "output": done.stdout})
