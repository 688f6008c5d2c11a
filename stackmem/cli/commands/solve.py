"""``stackmem solve``."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from stackmem.cli.options import Flags, JsonResult, Quiet, StreamJson, argument, option, settings, takes
from stackmem.cli.screen.event_stream import EventStream, StreamedUser
from stackmem.cli.screen.live import open_screen, stop_at_once
from stackmem.cli.screen.result import ask_about_size, show_result
from stackmem.cli.screen.standard_input import text_or_stdin
from stackmem.cli.screen.text import echo_json, readable, say, wrapped
from stackmem.core.errors import UsageError
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.settings.options import LIMIT_OPTIONS
from stackmem.settings.tools.mcp_servers import own_servers


@takes("flags", settings(
    "model", "strategy", "isolation", "network", "allow", "credentials",
    "check", "check_files", "include", "git", "extra_tools",
    "instructions", "skills", "programs", "learn", "layer", "runs_dir", "sandbox_dir",
    *LIMIT_OPTIONS, "command_seconds", "prompt",
    "profile", "base_url", "window_tokens", "size", "price", "temperature", "effort", "service_tier", "headers",
    "text_calls", "vision", "call_schema", "seed", "heap", "heap_chars", "heap_chunks", "depth", "checkpoints",
    "read_calls", "parallel_frames", "jobs", "otel", "fsync", "apply", "yes",
))  # fmt: skip
def command(
    subject: str = argument("TASK|DIR", "A task (folder or name), or your own folder."),
    text: str | None = option("-t --text", "The work to do in DIR; - reads it from standard input."),
    *,
    flags: Flags,
    attach: list[str] | None = option(
        "--attach", "A file, folder or image for the task; repeatable. Lines as PATH:10-40.", "PATH"
    ),
    json: JsonResult = False,
    stream_json: StreamJson = False,
    quiet: Quiet = False,
) -> None:
    """Let a model solve a task, or work on a copy of your folder."""
    if json and stream_json:
        raise UsageError("--json and --stream-json exclude each other; the last line of --stream-json has the result")
    text = None if text is None else text_or_stdin(text)
    folder = Path(os.path.expanduser(subject))
    with own_servers(os.environ, Path.cwd(), root=folder if folder.is_dir() else None) as warnings:
        say(*map(wrapped, warnings))
        request = prepare(subject, text, flags, os.environ, Path.cwd())
        say(*map(wrapped, request.warnings))
        stream = EventStream() if stream_json else None
        with stream or open_screen(quiet=quiet, asks=request.model == "human") as screen:
            agree = partial(ask_about_size, as_json=json or stream_json)
            person = StreamedUser(stream) if stream is not None else None
            result = solve(
                request, os.environ, screen, stop_at_once, agree, say, person, attach or (), screen.observe_frame,
                screen.observe_reading,
            )  # fmt: skip
        if result.failure:
            say(wrapped(f"stackmem: {readable(result.failure)}"))
        if stream is not None:
            stream.end(result, result.result, result.exit_code)
        elif json:
            echo_json(result)
        else:
            show_result(result, folder=request.subject.folder is not None, checked=request.checked)
        sys.exit(result.exit_code)
