"""Run one task with mini-swe-agent, for benchmarks/real_models.py.

That agent runs the model's commands in a plain shell, so each run is wrapped in bubblewrap. The machine is read-only,
except for the copy of the project and an empty /tmp.
"""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

CONFIGURATIONS = {"mini-swe-agent": "mini.yaml", "mini-swe-agent:text": "mini_textbased.yaml"}
"""Table row to the bundled configuration of mini-swe-agent: native tool calls, or fenced commands."""


def in_bubblewrap(words: list[str], project: Path, output: Path, *, needs: Path) -> list[str]:
    """Return the command line that runs `words` in `project` inside bubblewrap.

    The command can write only to `project`, to `output` and to an empty /tmp, which still contains the folder `needs`.
    """
    return [
        "bwrap", "--die-with-parent", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
        "--tmpfs", "/tmp", "--dir", "/tmp/home", "--ro-bind", str(needs), str(needs),
        "--bind", str(project), str(project), "--bind", str(output), str(output),
        "--setenv", "HOME", "/tmp/home", "--setenv", "MSWEA_COST_TRACKING", "ignore_errors",
        "--setenv", "MSWEA_CONFIGURED", "true", "--setenv", "MSWEA_GLOBAL_CONFIG_DIR", "/tmp/home",
        "--setenv", "OPENAI_API_KEY", "none", "--setenv", "LITELLM_LOCAL_MODEL_COST_MAP", "True",
        "--chdir", str(project), *words,
    ]  # fmt: skip


def run_mini(
    command: Path, name: str, text: str, project: Path, *, model: str, url: str, seed: int, steps: int, seconds: float
) -> dict:
    """Run mini-swe-agent once.

    Returns: `ending`, `steps` (replies of the model), `seconds`, `usage` (tokens) and `codes` (replies it refused).
    """
    output = project.parent / "mini"
    output.mkdir()
    settings = {
        "model.model_kwargs.api_base": url,
        "model.model_kwargs.seed": seed,
        "agent.step_limit": steps,
    }
    words = [
        str(command), "-y", "--exit-immediately", "-l", "0", "-m", f"openai/{model.partition('/')[2]}",
        "-t", text, "-o", str(output / "trajectory.json"), "-c", CONFIGURATIONS[name],
        *(["--model-class", "litellm_textbased"] if name.endswith(":text") else []),
        *[word for key, value in settings.items() for word in ("-c", f"{key}={value}")],
    ]  # fmt: skip
    if shutil.which("bwrap") is None:
        raise SystemExit(
            "bubblewrap is missing, and mini-swe-agent runs the model's commands in a plain shell; install bubblewrap"
        )
    began = time.monotonic()
    try:
        done = subprocess.run(
            in_bubblewrap(words, project, output, needs=command.absolute().parents[1]), capture_output=True, text=True,
            timeout=seconds, check=False, stdin=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "120"},
        )  # fmt: skip
        (output / "log.txt").write_text(done.stdout[-200_000:] + done.stderr[-200_000:], "utf-8")
        ending = "" if done.returncode == 0 else f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        ending = "timeout"
    return {"seconds": time.monotonic() - began, **summary(output / "trajectory.json", ending)}


def summary(trajectory: Path, ending: str) -> dict:
    """Summarize a trajectory. A missing file counts as a run without replies."""
    try:
        content = json.loads(trajectory.read_text("utf-8"))
    except OSError:
        content = {}
    replies = [message for message in content.get("messages", []) if message.get("role") == "assistant"]
    usages = [(reply.get("extra", {}).get("response") or {}).get("usage") or {} for reply in replies]
    cached = sum((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for usage in usages)
    asked = [message for message in content.get("messages", []) if message.get("role") == "user"]
    refused = sum("interrupt_type" in (message.get("extra") or {}) for message in asked)
    return {
        "ending": ending or str(content.get("info", {}).get("exit_status", "")),
        "steps": len(replies) + refused,  # the trajectory does not contain replies that the agent refused
        "usage": {
            "uncached": sum(usage.get("prompt_tokens", 0) for usage in usages) - cached,
            "cache_read": cached,
            "output": sum(usage.get("completion_tokens", 0) for usage in usages),
        },
        "codes": Counter({"format error": refused} if refused else {}),
    }
