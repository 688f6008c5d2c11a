"""Small recordings in the formats of public suites, made by hand with the fields that their files have."""

import json


def swe_agent(steps=3, **info):
    """A run of SWE-agent of 2024: a demonstration, an edit, tests that fail and then pass, a submission."""
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
    """A run of mini-swe-agent 1: the command is the fenced block, the exit code stands in the answer."""
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
