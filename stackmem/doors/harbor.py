"""stackmem as a Harbor agent: ``harbor run -p tasks --agent-import-path stackmem.doors.harbor:StackmemAgent``.

Harbor is not a dependency. This module does not import it; the agent class is built when Harbor asks for it.
stackmem is installed and run inside the task's container. The container is the sandbox, so stackmem works on a copy
of the working directory without its own sandbox and copies the changes back at the end.

Source: Harbor's ``agents/base.py`` and ``environments/base.py``, autumn 2026.
"""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from stackmem.core.errors import ModelError, UsageError, WorkspaceError
from stackmem.core.version import VERSION
from stackmem.settings.options import LIMIT_OPTIONS

LOGS = "/logs/agent"
KEYS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL",
    "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL",
)  # fmt: skip
"""Environment variables that models need; those that are set are passed into the container."""

_NO_HARBOR = (
    "stackmem.doors.harbor:StackmemAgent needs Harbor, which is not installed here; "
    "in the environment that runs 'harbor run' (Python 3.12 or later), run pip install harbor"
)


def solve_command(
    instruction: str, model: str | None, settings: dict[str, object], logs: str = LOGS, program: str = "stackmem"
) -> str:
    """Build the shell command that runs ``stackmem solve`` in the working directory and prints the result as JSON.

    ``settings`` are flags of ``stackmem solve`` by name, with ``_`` in place of ``-``: ``strategy``, ``max_steps``.
    """
    flags: dict[str, object] = {
        "isolation": "none", "fsync": "none", "runs_dir": f"{logs}/runs", "sandbox_dir": "/tmp/stackmem",  # noqa: S108
        **({"model": model} if model else {}), **settings,
    }  # fmt: skip
    words = [program, "solve", ".", f"--text={instruction}", "--json", "--quiet", "--yes", "--apply"]
    for name, value in flags.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return f"{shlex.join(words)} </dev/null"


def setup_command(wheel: str | None, program: str = "stackmem") -> str:
    """Build the shell command that installs stackmem if it is missing, and prints its version.

    ``wheel`` is the path of a wheel inside the container. Without one, stackmem must be in the container already,
    because no package index has it.
    """
    if wheel is None:
        install = "{ echo 'stackmem is not installed in the container; pass a wheel: --ak wheel=PATH' >&2; exit 1; }"
    else:
        file = shlex.quote(wheel)
        install = (
            f"python3 -m pip install --quiet --break-system-packages {file} || python3 -m pip install --quiet {file}"
        )
    return f"command -v {shlex.quote(program)} >/dev/null || {install}; {shlex.quote(program)} --version"


def read_result(stdout: str | None) -> dict[str, Any] | None:
    """Return the JSON result from the printed output, or None if there is none."""
    for line in reversed((stdout or "").splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "outcome" in value:
            return value
    return None


def fill_context(context: Any, result: dict[str, Any]) -> None:
    """Copy tokens (with cached ones), USD if known, and stackmem's own figures into Harbor's context."""
    usage = result.get("usage") or {}
    written = usage.get("cache_write_5m", 0) + usage.get("cache_write_1h", 0)
    context.n_input_tokens = usage.get("uncached", 0) + usage.get("cache_read", 0) + written
    context.n_cache_tokens = usage.get("cache_read", 0)
    context.n_output_tokens = usage.get("output", 0)
    context.cost_usd = result.get("cost_usd")
    names = ("run", "outcome", "ending", "steps", "frames", "strategy", "result", "failure")
    context.metadata = {**(context.metadata or {}), "stackmem": {name: result.get(name) for name in names}}


class _Members:
    """Methods of the agent; ``_agent_class`` combines them with Harbor's base class."""

    SUPPORTS_ATIF = True
    logs_dir: Path
    model_name: str | None

    def __init__(
        self, *args: Any, wheel: str | None = None, program: str = "stackmem", logs: str = LOGS, **kwargs: Any
    ) -> None:
        """Keyword arguments that are flags of ``stackmem solve``, such as ``strategy``, are passed to it.

        Args:
            wheel: A stackmem wheel on this machine, uploaded and installed if the container has no stackmem.
            program: The name of the stackmem command in the container.
            logs: The container's folder for agent logs.
        """
        self._wheel = wheel
        self._program = program
        self._logs = logs
        self._settings = {name: kwargs.pop(name) for name in list(kwargs) if name in _SETTINGS}
        super().__init__(*args, **kwargs)

    @staticmethod
    def name() -> str:
        return "stackmem"

    def version(self) -> str:
        return VERSION

    async def setup(self, environment: Any) -> None:
        """Install stackmem in the container, which needs Python 3.11 or later."""
        there = None
        if self._wheel is not None:
            there = f"/tmp/{Path(self._wheel).name}"  # noqa: S108
            await environment.upload_file(self._wheel, there)
        done = await environment.exec(setup_command(there, self._program), user="root")
        if done.return_code:
            raise WorkspaceError(
                f"stackmem cannot be installed in the container, which needs Python 3.11 or later with pip: "
                f"{_end(done)}"
            )

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Solve the task, fill Harbor's context, and write the trajectory to the place Harbor reads it from."""
        env = {name: os.environ[name] for name in KEYS if os.environ.get(name)} | getattr(self, "extra_env", {})
        command = solve_command(instruction, self.model_name, self._settings, self._logs, self._program)
        done = await environment.exec(command, env=env)
        result = read_result(done.stdout)
        if result is None or "run" not in result:
            raise ModelError(f"stackmem did not run in the container (exit {done.return_code}): {_end(done)}")
        fill_context(context, result)
        await self._keep(environment, result)
        if result.get("ending") in ("model_error", "workspace_error"):
            raise ModelError(f"the run {result['run']} ended early: {result.get('failure')}")

    async def _keep(self, environment: Any, result: dict[str, Any]) -> None:
        """Apply the changes if a limit ended the run before it did so, and export the trajectory."""
        run, program = f"{self._logs}/runs/{result['run']}", shlex.quote(self._program)
        if result.get("changed") and not result.get("applied_to"):
            await environment.exec(f"{program} apply {shlex.quote(run)}")
        trajectory = shlex.quote(f"{self._logs}/trajectory.json")
        await environment.exec(f"{program} export {shlex.quote(run)} --format atif -o {trajectory}")


_SETTINGS = frozenset({
    "strategy", *LIMIT_OPTIONS, "command_seconds", "window_tokens", "heap_chars",
    "heap_chunks", "depth", "checkpoints", "read_calls", "isolation", "base_url", "price", "temperature", "effort",
    "service_tier", "text_calls", "vision", "call_schema",
})  # fmt: skip


def _end(done: Any) -> str:
    output = f"{done.stdout or ''}\n{done.stderr or ''}".strip()
    return output[-500:] or "no output"


def _agent_class() -> type:
    try:
        base = import_module("harbor.agents.base").BaseAgent
    except ImportError as error:
        raise UsageError(_NO_HARBOR) from error
    members: dict[str, Any] = {"__module__": __name__, "__doc__": _Members.__doc__}
    with suppress(ImportError):  # releases without this module read SUPPORTS_ATIF instead
        members["capabilities"] = import_module("harbor.agents.capabilities").AgentCapabilities(atif=True)
    return type("StackmemAgent", (_Members, base), members)


def __getattr__(name: str) -> Any:
    if name != "StackmemAgent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    agent = globals()[name] = _agent_class()
    return agent
