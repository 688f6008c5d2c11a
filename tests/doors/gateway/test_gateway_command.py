"""Tests ``stackmem gateway`` from the command line with a third-party agent behind it."""

import json
import os
import signal
import sys
from pathlib import Path

from tests.doors.gateway.upstream import RawAnswer, RawUpstream, message_events, text
from tests.providers.server import MessagesServer, calls, says
from tests.stage import ROOT, Stage

AGENT = """
import sys, anthropic
client = anthropic.Anthropic(max_retries=0)
tools = [{"name": "run", "description": "", "input_schema": {"type": "object", "properties": {}}}]
history = [{"role": "user", "content": [{"type": "text", "text": "List the files."}]}]
for _ in range(2):
    asked = client.messages.stream(model="claude-sonnet-5-5", max_tokens=100, messages=history, tools=tools)
    with asked as stream:
        reply = stream.get_final_message()
    history.append({"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in reply.content]})
    call = next((one for one in reply.content if one.type == "tool_use"), None)
    if call is not None:
        result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "a.py"}]}
        history.append({"role": "user", "content": [result]})
print(reply.content[0].text)
sys.exit(7)
"""


def test_an_agent_with_the_official_sdk_runs_behind_it_and_its_exit_code_stays(stage: Stage):
    with MessagesServer(calls("run", {}, thought="I look."), says("One file.")) as server:
        ran = stage.run("gateway", "run", "--", sys.executable, "-c", AGENT, env=server.environ)
        assert (ran.returncode, ran.stdout) == (7, "One file.\n")
        assert len(server.raw) == 2
    (run,) = stage.runs.iterdir()
    assert f"{run.name}: 2 steps" in ran.stderr
    shown = stage.call("trace", "stats", run, "--json")
    assert json.loads(shown.stdout)["metrics"]["steps"] == 2
    page = stage.call("view", run, "-o", str(stage.root / "page.html"))
    exported = stage.call("export", run, "--format", "atif", "-o", str(stage.root / "run.json"))
    costed = stage.call("whatif", run)
    assert "events follow from the gateway's log" in stage.call("replay", run).stdout
    assert (page.returncode, exported.returncode, costed.returncode) == (0, 0, 0)


CHAT_AGENT = """
import openai
client = openai.OpenAI(max_retries=0)
told = [{"role": "user", "content": "Hi"}]
print(client.chat.completions.create(model="gpt-5.6", messages=told).choices[0].message.content)
print(client.responses.create(model="gpt-5.6", input="Hi").output_text)
"""
SPOKEN = {"role": "assistant", "content": "Hello."}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": SPOKEN}]}  # fmt: skip
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": True,
            "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": "Hello again.", "annotations": []}]}]}  # fmt: skip


def test_the_official_sdk_of_openai_runs_behind_it(stage: Stage):
    script = [RawAnswer((json.dumps(one).encode(),), headers=(("content-type", "application/json"),))
              for one in (CHAT, RESPONSE)]  # fmt: skip
    with RawUpstream(*script) as upstream:
        given = {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        ran = stage.run("gateway", "run", "--json", "--", sys.executable, "-c", CHAT_AGENT, env=given)
        assert [path for path, _, _ in upstream.seen] == ["/v1/chat/completions", "/v1/responses"]
    words, _, bill = ran.stdout.partition("{")
    assert words == "Hello.\nHello again.\n"
    assert [run["steps"] for run in json.loads("{" + bill)["runs"]] == [1, 1]


def test_it_listens_until_it_is_stopped_and_ends_its_runs(stage: Stage, tmp_path: Path):
    import httpx2

    with RawUpstream(RawAnswer(message_events(text("Done.")))) as upstream:
        served = stage.start("gateway", "--upstream", upstream.url, "-o", str(tmp_path / "kept"))
        assert served.stdout is not None
        line = served.stdout.readline()
        url = line.split("ANTHROPIC_BASE_URL=")[1].split()[0]
        body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        assert httpx2.post(f"{url}/v1/messages", json=body).status_code == 200
        os.kill(served.pid, signal.SIGTERM)
        _, told = served.communicate(timeout=60)
    assert served.returncode == 0
    assert "1 run" in told
    (run,) = (tmp_path / "kept").iterdir()
    assert (run / "result.json").exists()


def test_what_cannot_be_is_said(stage: Stage):
    assert "not an address" in stage.call("gateway", "--upstream", "nowhere").stderr
    assert "above 0" in stage.call("gateway", "--max-usd", "-1").stderr
    assert "cannot be started" in stage.call("gateway", "run", "--", str(ROOT / "nothing-here")).stderr
    for token, why in (("short", "at least 16 characters"), ("a/b?c#" * 4, "only contain letters")):
        assert why in stage.call("gateway", env={"STACKMEM_GATEWAY_TOKEN": token}).stderr
