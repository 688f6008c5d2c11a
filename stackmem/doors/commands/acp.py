"""``stackmem acp``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from msgspec.structs import replace

from stackmem.cli.options import Flags, option, settings, takes
from stackmem.core.errors import UsageError
from stackmem.core.person_facts import Approve, SessionRules
from stackmem.core.state import State
from stackmem.core.strategy import has_frames
from stackmem.doors.chat.commands import Look
from stackmem.doors.tool_servers.servers import connected
from stackmem.foreign.installing import install_command
from stackmem.memory import open_strategy
from stackmem.run.prepare import prepare
from stackmem.run.request import Request
from stackmem.settings.mcp_servers import Server
from stackmem.settings.options import LIMIT_OPTIONS
from stackmem.settings.tools.mcp_servers import own_servers


@takes("flags", settings(
    "model", "strategy", "isolation", "network", "allow", "credentials",
    "include", "git", "extra_tools", "instructions", "skills", "programs", "learn", "layer", "runs_dir", "sandbox_dir",
    *LIMIT_OPTIONS, "command_seconds", "prompt",
    "profile", "base_url", "window_tokens", "price", "temperature", "effort", "service_tier", "headers",
    "text_calls", "vision", "call_schema", "seed", "heap_chars", "heap_chunks", "depth", "checkpoints", "read_calls",
    "parallel_frames",
    "jobs", "upkeep", "otel", "fsync",
))  # fmt: skip
def command(
    *,
    flags: Flags,
    approve: str = option(
        "--approve",
        "Ask before calls in the sandbox: never, before writes, also before commands, or always.",
        "never|writes|commands|all",
        default="never",
    ),
) -> None:
    """Serve an editor over stdin and stdout, with the Agent Client Protocol."""
    mode = next((each for each in get_args(Approve) if each == approve), None)
    if mode is None:
        raise UsageError(f"--approve must be one of {', '.join(get_args(Approve))}, not {approve[:40]!a}")
    try:
        from stackmem.doors.acp.agent import EditorAgent, serve_acp
        from stackmem.doors.acp.turns import Turns
    except ImportError as error:
        raise UsageError(
            f"stackmem acp needs the extra 'acp' ({error.name} is missing); install it: {install_command('acp')}"
        ) from error

    def prepared(folder: Path, overrides: Mapping[str, str]) -> Request:
        # Make every call ask, and let the session's mode answer for the user: so the mode can change during a run.
        request = prepare(
            str(folder), None, {**flags, **overrides}, os.environ, Path.cwd(), SessionRules(approve="all")
        )
        framed = has_frames(open_strategy(request.resolved.settings.strategy))
        rules = request.session or SessionRules()
        return replace(request, session=replace(rules, policy="frame" if framed else "flat"))

    def runs_dir(folder: Path) -> Path:
        return prepared(folder, {}).folders[0]

    with ExitStack() as stack:
        warnings = stack.enter_context(own_servers(os.environ, Path.cwd()))

        def connect(servers: Mapping[str, Server], root: Path) -> None:
            stack.enter_context(connected(servers, root))

        turns = Turns(prepared, _look, os.environ)
        for warning in warnings:
            print(warning, file=sys.stderr)  # noqa: T201 - stdout carries the protocol
        sys.exit(serve_acp(lambda: EditorAgent(turns, runs_dir, mode, connect), turns))


def _look(command: str, rest: str, state: State, run_dir: Path) -> str:
    lines: list[str] = []

    def keep(*texts: str) -> None:
        lines.extend(texts)

    def fenced(text: str) -> str:
        return f"```diff\n{text}\n```"

    Look(keep, keep, fenced)(command, rest, state, run_dir)
    return "\n\n".join(lines)
