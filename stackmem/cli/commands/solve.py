"""``stackmem solve``."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from stackmem.cli.options import Flags, JsonResult, Quiet, argument, option, settings, takes
from stackmem.cli.screen.live import open_screen, stop_at_once
from stackmem.cli.screen.result import ask_about_size, show_result
from stackmem.cli.screen.text import echo_json, readable, say
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.settings.options import LIMIT_OPTIONS
from stackmem.tools.mcp_servers import own_servers


@takes("flags", settings(
    "model", "strategy", "isolation", "network", "allow", "credentials",
    "check", "check_files", "include", "git", "extra_tools",
    "instructions", "skills", "layer", "runs_dir", "sandbox_dir",
    *LIMIT_OPTIONS, "command_seconds", "prompt",
    "profile", "base_url", "window_tokens", "size", "price", "temperature", "effort", "service_tier", "headers",
    "text_calls", "call_schema", "seed", "heap", "heap_chars", "heap_chunks", "depth", "checkpoints",
    "otel", "fsync", "apply", "yes",
))  # fmt: skip
def command(
    subject: str = argument("TASK|DIR", "A task (folder or name), or your own folder."),
    text: str | None = option("-t --text", "The work to do in DIR."),
    *,
    flags: Flags,
    json: JsonResult = False,
    quiet: Quiet = False,
) -> None:
    """Let a model solve a task, or work on a copy of your folder."""
    folder = Path(os.path.expanduser(subject))
    with own_servers(os.environ, Path.cwd(), root=folder if folder.is_dir() else None) as warnings:
        say(*warnings)
        prepared = prepare(subject, text, flags, os.environ, Path.cwd())
        say(*prepared.warnings)
        with open_screen(quiet=quiet, asks=prepared.model == "human") as screen:
            agree = partial(ask_about_size, as_json=json)
            result = solve(prepared, os.environ, screen, stop_at_once, agree, say)
        if result.failure:
            say(f"stackmem: {readable(result.failure)}")
        if json:
            echo_json(result)
        else:
            show_result(result, folder=prepared.subject.folder is not None, checked=prepared.checked)
        sys.exit(result.exit_code)
