"""``stackmem --in-container COMMAND``: runs the same command in a container, for systems without a sandbox.

The current folder is mounted, and runs are kept in a volume. Keys are passed by name, so no value is in the argument
list, where other users could read it. Imports only the standard library.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackmem.core.errors import UsageError

from .catalog import IN_CONTAINER

_NEED_LINUX = (
    "solve", "chat", "acp", "resume", "fork", "apply", "run", "debug", "repl", "mcp", "compile", "tasks check",
    "tasks build",
)  # fmt: skip
WITHOUT_SANDBOX = "replay, view, ui, report, import, export, gateway, and bench of worlds with --isolation memory"
_ENGINES = ("podman", "docker")
_IMAGE = "stackmem"
_WORK = "/work"
_PASSED = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "NO_COLOR", "TERM", "COLORTERM")
_HOST_PATHS = ("STACKMEM_RUNS_DIR", "STACKMEM_SANDBOX_DIR")  # paths of this machine, which the container does not have


def container_command(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, *, terminal: bool
) -> tuple[str, list[str]]:
    """Return the engine's program and its argument list.

    Raise UsageError if no engine is installed, or the folder's path cannot be mounted.
    """
    setting = environ.get("STACKMEM_ENGINE", "")
    engine = next((path for name in ((setting,) if setting else _ENGINES) if (path := _program(name, environ))), None)
    if engine is None:
        missing = f"the engine {setting} is" if setting else "podman and docker are"
        raise UsageError(f"{missing} not installed; install one of {', '.join(_ENGINES)}, or use a Linux machine")
    if any(char in str(cwd) for char in ',"\n'):
        raise UsageError(
            f"{str(cwd)!a} cannot be mounted, because of its comma, quote or line break; rename the folder"
        )
    names = [name for name in (*_PASSED, *_settings(environ)) if name in environ]
    podman = Path(engine).name.startswith("podman")
    command = [
        engine, "run", "--rm", "--interactive", *(("--tty",) if terminal else ()), "--pull=never",
        *(("--userns=keep-id:uid=1000,gid=1000",) if podman else ()),
        "--mount", f"type=bind,source={cwd},target={_WORK}", "--workdir", _WORK,
        "--mount", "type=volume,source=stackmem-home,target=/home/agent",
        *(part for name in names for part in ("--env", name)),
        environ.get("STACKMEM_IMAGE", _IMAGE), *arguments,
    ]  # fmt: skip
    return engine, command


def refuse_without_linux(arguments: Sequence[str], platform: str) -> None:
    """Raise ``UsageError`` if a command starts a sandbox and this system has none. Its help works everywhere."""
    command = next((name for name in (" ".join(arguments[:2]), *arguments[:1]) if name in _NEED_LINUX), "")
    if platform == "linux" or not command or "--help" in arguments:
        return
    raise UsageError(
        f"stackmem {command} needs Linux, because its sandbox does; use stackmem {IN_CONTAINER} {command}, or WSL 2 on "
        f"Windows. Commands without a sandbox work here: {WITHOUT_SANDBOX}"
    )


def run_in_container(arguments: Sequence[str]) -> None:
    """Replace this process with the engine."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    engine, command = container_command(arguments, os.environ, Path.cwd(), terminal=terminal)
    os.execv(engine, command)  # noqa: S606 - the user's own engine, without a shell


def _program(name: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=environ.get("PATH", os.defpath))


def _settings(environ: Mapping[str, str]) -> list[str]:
    own = sorted(name for name in environ if name.startswith("STACKMEM_"))
    return [name for name in own if name not in (*_HOST_PATHS, "STACKMEM_ENGINE", "STACKMEM_IMAGE")]
