"""Small recordings in the formats of public suites, made by hand with the fields of real files."""

import json


def swe_agent(steps=3, **info):
    """A SWE-agent run of 2024: a demonstration, an edit, tests that fail and then pass, a submission."""
    actions = [
        ("First, look at the file.", "open src/total_price.py", "[File: src/total_price.py]\nrate = 0.0731"),
        ("Now fix it.", "edit 1:1\nrate = 0.0732\nend_of_edit", "File updated."),
        ("Next, run the tests.", "python -m pytest", "1 failed, 1 passed"),
    ]
    trajectory = [
        {"thought": thought, "action": action, "response": f"{thought}\n```\n{action}\n```", "observation": seen,
         "state": "{}"}
        for thought, action, seen in (actions * steps)[:steps]
    ]  # fmt: skip
    trajectory.append({"thought": "Done.", "action": "submit", "response": "", "observation": "", "state": "{}"})
    history = [
        {"role": "system", "content": "You use a special interface."},
        {"role": "user", "content": "Here is a demonstration.", "is_demo": True},
        {"role": "assistant", "content": "create it.py", "is_demo": True},
        {"role": "user", "content": "The tax in src/total_price.py is wrong."},
        {"role": "assistant", "content": "First, look at the file."},
    ]
    stats = {"instance_cost": 0.25, "tokens_sent": 1000, "tokens_received": 20}
    told = {"exit_status": "submitted", "submission": "diff --git a b", "model_stats": stats, **info}
    return json.dumps({"environment": "swe_main", "trajectory": trajectory, "history": history, "info": told})


def mini_1():
    """A run of mini-swe-agent 1: the command is the fenced block, and the answer contains the exit code."""
    usage = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}
    extra = {"response": {"id": "r1", "model": "maker/model-9", "created": 1771407000, "usage": usage}}
    messages = [
        {"role": "system", "content": "One block."},
        {"role": "user", "content": "Mend it."},
        {"role": "assistant", "content": "THOUGHT: see\n\n```bash\ncat src/it_9.py\n```", "extra": extra},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\nno such file\n</output>"},
        {"role": "assistant", "content": "```bash\none\n```\n```bash\ntwo\n```", "extra": extra},
        {"role": "user", "content": "Please give one block."},
    ]
    info = {"exit_status": "LimitsExceeded", "mini_version": "1.15.0"}
    return json.dumps(
        {"messages": messages, "info": info, "trajectory_format": "mini-swe-agent-1", "instance_id": "t1"}
    )


def tau():
    """Two trials of one task."""
    call = {"id": "c1", "type": "function", "function": {"name": "get_user", "arguments": '{"id": "mia_3668"}'}}
    traj = [
        {"role": "system", "content": "Policy."},
        {"role": "user", "content": "I am mia_3668."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_user", "content": '{"card": "certificate_7504069"}'},
        {"role": "assistant", "content": "Which card?"},
        {"role": "user", "content": "The first."},
    ]
    return json.dumps([{"task_id": 7, "traj": traj, "trial": trial, "reward": 1.0, "info": {}} for trial in (0, 1)])


TERMINAL = (
    "root@1:/app# mini -m anthropic/claude-sonnet-4-0 -t 'Mend it' -y\r\n"
    "This is mini-swe-agent version \x1b[1;32m1.8.1\x1b[0m.\r\n\r\n"
    "System:\r\nOne block.\r\nUser:\r\nMend it.\r\n" + "─" * 60 + "\r\n"
    "\x1b[2K⠋ Waiting for the LM to respond...\r\n"
    "mini-swe-agent (step \x1b[1m1\x1b[0m, $\x1b[1m0.01\x1b[0m):\r\n"
    "THOUGHT: Look.\r\n\r\n```bash\r\nls src\r\n```\r\n\r\nUser:\r\n<returncode>2</returncode>\r\nno src\r\n"
    + "─"
    * 60
    + "\r\n"
    "mini-swe-agent (step 2, $0.03):\r\nDone.\r\n\r\n```bash\r\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\r\n```\r\n"
    "\r\nUser:\r\n\r\nSaved trajectory to '/root/last.json'\r\nroot@1:/app# exit\r\n"
)


def openhands_0():
    """Two calls in one response, whose usage appears four times; a failing command; text added by the program."""
    usage = {"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": None}
    calls = [
        {"id": f"t{number}", "function": {"name": "execute_bash", "arguments": f'{{"command": "ls {number}"}}'}}
        for number in (1, 2)
    ]
    choices = [{"message": {"role": "assistant", "content": "Look twice.", "tool_calls": calls}}]
    made = {"id": "r1", "model": "maker/model-5", "usage": usage, "choices": choices}
    events = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "You are OpenHands."}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Mend it."}},
        {"id": 2, "source": "user", "action": "recall", "args": {}},
    ]
    for number, code in ((1, 0), (2, 1)):
        told = {"function_name": "execute_bash", "tool_call_id": f"t{number}", "model_response": made}
        stamp = {"timestamp": f"2025-04-30T16:32:5{number}", "source": "agent", "tool_call_metadata": told}
        events.append({"id": 10 + number, "action": "run", "args": {"command": f"ls {number}"}, **stamp})
        extras = {"metadata": {"exit_code": code}}
        seen = {"observation": "run", "cause": 10 + number, "content": f"seen {number}", "extras": extras}
        events.append({"id": 20 + number, **seen, **stamp})
    config = {"llm_config": {"model": "openai/by-way-of"}}
    return json.dumps({"instance_id": "pony-1", "history": events, "metadata": config})


def openhands_sdk():
    call = {"id": "c1", "name": "terminal", "arguments": '{"command": "false"}'}
    return "\n".join(
        json.dumps(event)
        for event in (
            {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "You are."}},
            {"kind": "MessageEvent", "source": "user",
             "llm_message": {"role": "user", "content": [{"type": "text", "text": "Mend it."}]}},
            {"kind": "ActionEvent", "source": "agent", "thought": [{"type": "text", "text": "Try."}],
             "tool_name": "terminal", "tool_call_id": "c1", "tool_call": call, "llm_response_id": "r1"},
            {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "c1",
             "observation": {"content": [{"type": "text", "text": "no"}], "exit_code": 1, "is_error": False}},
            {"kind": "ConversationStateUpdateEvent", "source": "environment"},
            {"kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant", "content": "Done."}},
        )
    )  # fmt: skip


def _rollout(kind, **payload):
    return {"timestamp": "2026-02-18T10:30:00.000Z", "type": kind, "payload": payload}


def codex():
    first = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 9, "reasoning_output_tokens": 5}
    second = {"input_tokens": 120, "cached_input_tokens": 100, "output_tokens": 4}
    total = {"input_tokens": 220, "cached_input_tokens": 140, "output_tokens": 13}
    said = [{"type": "output_text", "text": "Done."}]
    standing, task = ([{"type": "input_text", "text": text}] for text in ("<environment_context>x", "Mend it."))
    grown = {"total_token_usage": first, "last_token_usage": first}
    asked, failed = '{"command": ["bash", "-lc", "ls"]}', '{"output": "no", "metadata": {"exit_code": 2}}'
    lines = [
        _rollout("session_meta", id="s1", cwd="/w", cli_version="0.65.0", base_instructions={"text": "You are Codex."}),
        _rollout("turn_context", model="gpt-5.2-codex"),
        _rollout("response_item", type="message", role="user", content=standing),
        _rollout("response_item", type="message", role="user", content=task),
        _rollout("event_msg", type="token_count", info=None),
        _rollout("response_item", type="reasoning", summary=[{"type": "summary_text", "text": "Hm."}]),
        _rollout("response_item", type="function_call", name="shell", arguments=asked, call_id="c1"),
        _rollout("event_msg", type="token_count", info=grown),
        _rollout("event_msg", type="token_count", info=grown),
        _rollout("response_item", type="function_call_output", call_id="c1", output=failed),
        _rollout("response_item", type="message", role="assistant", content=said),
        _rollout("event_msg", type="token_count", info={"total_token_usage": total, "last_token_usage": second}),
        _rollout("response_item", type="ghost_snapshot"),
    ]  # fmt: skip
    return "\n".join(map(json.dumps, lines)) + "\n"


def gemini():
    response = {"functionResponse": {"name": "read_file", "response": {"output": "rate = 0.0731"}}}
    call = {"id": "g1", "name": "read_file", "args": {"path": "a.py"}, "result": [response], "status": "success"}
    bad = {"id": "g2", "name": "run_shell_command", "args": {"command": "no"}, "result": [], "status": "error"}
    tokens = {"input": 100, "output": 10, "cached": 60, "thoughts": 5, "tool": 0, "total": 115}
    at = "2026-02-18T10:30:00.000Z"
    messages = [
        {"id": "1", "timestamp": at, "type": "user", "content": "Mend it."},
        {"id": "2", "timestamp": at, "type": "gemini", "content": "", "model": "gemini-3-pro", "toolCalls": [call, bad],
         "thoughts": [{"subject": "Look", "description": "I look."}], "tokens": tokens},
        {"id": "3", "timestamp": at, "type": "info", "content": "told by the program"},
        {"id": "4", "timestamp": at, "type": "gemini", "content": "Done.", "model": "gemini-3-pro", "tokens": tokens},
    ]  # fmt: skip
    return {"sessionId": "s1", "projectHash": "p", "startTime": at, "messages": messages}
