"""Sessions whose sub-agents are in other files: rollouts of Codex and chats of Gemini CLI become one run."""

import json
from pathlib import Path
from typing import Any

import pytest

from stackmem.formats.import_ import import_file

TASK = "List the folder and report it."


def written(path: Path, *lines: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def rollout(folder: Path, name: str, parent: str, *payloads: Any, tokens: int) -> Path:
    meta = {"id": name, "session_id": "main", **({"parent_thread_id": parent} if parent else {})}
    more = {"agent_path": f"/root/{name}"} if parent else {}
    used = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 1}
    lines = [{"type": "session_meta", "payload": meta | more},
             {"type": "turn_context", "payload": {"model": "gpt-5.6-sol"}},
             *({"type": "response_item", "payload": one} for one in payloads),
             {"type": "event_msg", "payload": {"type": "token_count", "info": {
                 "total_token_usage": used, "last_token_usage": used}}}]  # fmt: skip
    return written(folder / f"rollout-{name}.jsonl", *lines)


def said(text: str) -> Any:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


@pytest.mark.parametrize("answer", ['{"agent_id":"a","nickname":"x"}', '{"task_name":"/root/a"}'])
def test_a_rollout_of_codex_includes_its_sub_agents(tmp_path, answer):
    call = {"type": "function_call", "call_id": "c", "name": "spawn_agent", "arguments": json.dumps({"message": TASK})}
    back = {"type": "function_call_output", "call_id": "c", "output": answer}
    task = {"type": "agent_message", "content": [{"type": "encrypted_content", "encrypted_content": TASK}]}
    main = rollout(tmp_path, "main", "", {"type": "message", "role": "user", "content": "Go."}, call, back, tokens=10)
    rollout(tmp_path, "a", "main", task, said("Seven files."), tokens=5)
    rollout(tmp_path, "b", "main", task, said("Unknown."), tokens=700)
    (tmp_path / "rollout-torn.jsonl").write_bytes(b"{\xff")
    (found,) = import_file(main, None, tmp_path / "runs")
    assert (found.steps, found.frames, found.usage.uncached) == (2, 1, 15)
    assert "1 sub-agent whose call is unknown" in found.left_out
    (alone,) = import_file(tmp_path / "rollout-a.jsonl", None, tmp_path / "runs")
    assert (alone.steps, alone.frames) == (1, 0)


def test_a_chat_of_gemini_includes_its_sub_agents(tmp_path):
    call = {"id": "c", "name": "invoke_agent", "args": {"prompt": TASK}, "status": "success", "result": "Done."}
    reply = {"id": "2", "type": "gemini", "content": "I start one.", "tokens": {"input": 10, "output": 1}}
    head = {"projectHash": "p", "sessionId": "12345678-main"}
    user = {"id": "1", "type": "user", "content": "Go."}
    chat = written(tmp_path / "session-1.jsonl", head, user, {**reply, "toolCalls": [call]})
    inner = {**head, "sessionId": "12345678-sub", "kind": "subagent"}
    written(tmp_path / "12345678-main" / "a.jsonl", inner, {**user, "content": TASK}, {**reply, "content": "Seven."})
    (found,) = import_file(chat, None, tmp_path / "runs")
    assert (found.steps, found.frames, found.usage.uncached) == (2, 1, 20)
