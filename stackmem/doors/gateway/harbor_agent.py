"""Runs a Harbor agent in the current environment: ``python harbor_agent.py NAME MODEL INSTRUCTION [PROGRAM ...]``.

A trial starts this script in its sandbox with the Python that has Harbor, so it must not import stackmem. The
sandbox takes the place of Harbor's container: the agent's commands run in it, and nothing is installed. The root
file system is read-only, so files for ``/logs/agent`` go to a temporary folder.

Source: Harbor's ``agents/factory.py``, ``agents/installed/base.py`` and ``environments/base.py``, 0.26.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

_LOGS = "/logs/agent"
_SHOWN_CHARS = 4_000


class SandboxEnvironment:
    """A Harbor environment that already exists: the sandbox. Agents write their logs to ``logs``."""

    default_user = None
    session_id = "trial"

    def __init__(self, logs: Path) -> None:
        self._logs = logs

    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None,
        timeout_sec: int | None = None, user: object = None,
    ) -> Any:  # fmt: skip
        """Run a command; ``user`` is ignored, because a sandbox has only one."""
        result = import_module("harbor.environments.base").ExecResult
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", command.replace(_LOGS, str(self._logs)), cwd=cwd, env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except TimeoutError:
            process.kill()
            out, err = await process.communicate()
        text, errors = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        sys.stdout.write(f"{text[-_SHOWN_CHARS:]}\n{errors[-_SHOWN_CHARS:]}\n")
        return result(stdout=text, stderr=errors, return_code=process.returncode)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        path = Path(target_path.replace(_LOGS, str(self._logs)))
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_path, path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, target_dir.replace(_LOGS, str(self._logs)), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copyfile(source_path.replace(_LOGS, str(self._logs)), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(source_dir.replace(_LOGS, str(self._logs)), target_dir, dirs_exist_ok=True)

    async def is_dir(self, path: str, user: object = None) -> bool:
        return Path(path).is_dir()


async def work(name: str, model: str, instruction: str, logs: Path) -> None:
    """Run the agent on the instruction; its exceptions propagate."""
    names, factory = import_module("harbor.models.agent.name").AgentName, import_module("harbor.agents.factory")
    if name not in names.values():
        raise SystemExit(f"Harbor has no agent {name!r}; it has {', '.join(sorted(names.values()))}")
    kind = factory.AgentFactory.get_agent_class(names(name))
    options: dict[str, Any] = {"skip_install": True} if hasattr(kind, "install") else {}
    agent = kind(logs_dir=logs, model_name=model, **options)
    agent.environment_logs_dir = PurePosixPath(logs)
    environment = SandboxEnvironment(logs)
    await agent.setup(environment)
    context = import_module("harbor.models.agent.context").AgentContext()
    await agent.run(instruction, environment, context)


def main(name: str, model: str, instruction: str, *programs: str) -> None:
    """Put the folders of ``programs`` on PATH and run the agent."""
    folders = [str(Path(program).parent) for program in (*programs, sys.executable)]
    os.environ["PATH"] = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    with tempfile.TemporaryDirectory() as logs:
        asyncio.run(work(name, model, instruction, Path(logs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
