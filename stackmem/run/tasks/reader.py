"""Reads a task folder in Harbor's format, version 1.4, with our own settings under ``[metadata.stackmem]``.

Source: docs/tasks.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.limits import RUN_LIMITS

from .steps import (
    CHECK_SECONDS,
    TaskStep,
    existing_folder,
    instruction_of,
    read_instruction,
    read_steps,
    solution_of,
    tests_of,
)  # fmt: skip
from .table import Keys, TaskTable

# The keys of task.toml 1.4 according to Harbor's schema and models, and ours. Like Harbor's linter, we report unknown
# keys, which Harbor's parser ignores.


def _free(*names: str) -> dict[str, None]:
    return dict.fromkeys(names)


_NETWORK = _free("network_mode", "allowed_hosts")
_HEALTHCHECK: Keys = _free(
    "command", "interval_sec", "timeout_sec", "start_period_sec", "start_interval_sec", "retries"
)
_ENVIRONMENT: Keys = {
    **_NETWORK,
    **_free("build_timeout_sec", "docker_image", "os", "cpus", "memory_mb", "storage_mb", "gpus", "gpu_types"),
    **_free("env", "workdir", "skills_dir", "memory", "storage", "allow_internet"),
    "tpu": _free("type", "topology"),
    "mcp_servers": {**_free("name", "transport", "url", "command", "args"), "headers": None},
    "healthcheck": _HEALTHCHECK,
}
_AGENT: Keys = {**_NETWORK, **_free("timeout_sec", "user")}
_VERIFIER: Keys = {
    **_NETWORK,
    **_free("timeout_sec", "env", "user", "environment_mode"),
    "environment": _ENVIRONMENT,
    "collect": _free("command", "service", "timeout_sec", "user"),
}
_ARTIFACT: Keys = _free("source", "destination", "exclude", "service")

_LIMITS = tuple(limit for limit in RUN_LIMITS if limit.field != "seconds")  # those are ``[agent] timeout_sec``
OURS: Keys = _free(*(limit.setting for limit in _LIMITS), "command_seconds", "toolchains", "image")

KNOWN_KEYS: Keys = {
    **_free("schema_version", "version", "source", "multi_step_reward_strategy"),
    "artifacts": _ARTIFACT,
    "task": {**_free("name", "version", "description", "keywords"), "authors": _free("name", "email")},
    "metadata": None,
    "agent": _AGENT,
    "verifier": _VERIFIER,
    "environment": _ENVIRONMENT,
    "solution": _free("env"),
    "steps": None,
}

NOT_HONOURED: Mapping[str, str] = {
    "gpus": "the sandbox has none",
    "tpu": "the sandbox has none",
    "mcp_servers": "tool servers come from the user, never from a task",
    "skills_dir": "the agent has no skills folder",
}
"""Keys of ``[environment]`` that change a container, and why they have no effect here."""

ON_HOST: Mapping[str, str] = {
    "docker_image": "the sandbox runs on this machine's own tools",
    "healthcheck": "the sandbox starts no services",
    "env": "set what commands need in the files of the task",
}
"""Additional such keys for a task that does not run in its own image."""


# A task folder is untrusted: a link at one of these paths would expose the user's files.
_OWN_FILES = (
    "task.toml", "instruction.md", "demo.yaml", "environment", "environment/workspace", "tests", "tests/test.sh",
    "solution", "solution/solve.sh",
)  # fmt: skip


class TaskImage(Struct, frozen=True):
    """The system image of a task."""

    context: Path  # the folder that its recipe copies from
    recipe: Path | None = None  # the Dockerfile; None if ``named`` is used unchanged
    named: str = ""
    compose: Path | None = None  # the compose file with its services, if any
    # workdir, env: override the recipe; empty if not set
    workdir: str = ""
    env: dict[str, str] = {}
    apart: bool = False  # the checks run in a root without the agent's changes outside the working directory


class Task(Struct, frozen=True):
    """A task as defined by its folder. None means that a value is not set."""

    name: str  # ``[task] name`` in the form ``org/name``; otherwise the folder's name
    folder: Path
    instruction: str
    tests: Path  # the hidden folder with ``test.sh``
    workspace: Path | None = None  # files that the agent starts with
    solution: Path | None = None  # the folder with ``solve.sh``
    demo: Path | None = None  # the script of a model that solves the task
    limits: Mapping[str, float | None] = {}  # of the agent, by setting
    check_seconds: float = CHECK_SECONDS  # wall time limit of the checks
    check_env: dict[str, str] = {}  # environment of the checks as written, ``${VAR}`` not substituted
    command_seconds: float | None = None
    toolchains: tuple[str, ...] = ()  # folders that the task wants mounted read-only
    image: TaskImage | None = None  # the image for its commands; None for this machine's tools
    steps: tuple[TaskStep, ...] = ()  # in order, if there are several; then they define the tests and solutions
    strategy: str = "mean"  # ``mean`` or ``final``: how the rewards of steps are combined
    warnings: tuple[str, ...] = ()  # messages about keys that are unknown or have no effect here

    @property
    def short_name(self) -> str:
        return self.name.rsplit("/", 1)[-1]


def read_task(folder: Path) -> Task:
    """Read the task in a folder.

    Raise UsageError if the folder, its task.toml, its instruction or its checks are missing or broken.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise UsageError(f"no task folder {folder}; 'stackmem tasks list' shows the available tasks")
    _refuse_foreign_files(folder)
    table = TaskTable(folder / "task.toml")
    agent, verifier, environment = table.section("agent"), table.section("verifier"), table.section("environment")
    ours = table.section("metadata").section("stackmem")
    table.refuse_what_we_cannot_run()
    steps = read_steps(table, folder)
    image = _image(folder, environment, verifier, ours)
    return Task(
        name=table.section("task").text("name") or folder.name,
        folder=folder,
        instruction=instruction_of(steps) if steps else read_instruction(folder),
        tests=steps[-1].tests if steps else tests_of(folder),
        workspace=existing_folder(folder / "environment" / "workspace"),
        solution=solution_of(folder),
        demo=folder / "demo.yaml" if (folder / "demo.yaml").is_file() else None,
        limits={
            "max_seconds": agent.positive("timeout_sec"),
            **{each.setting: (ours.count if each.integer else ours.positive)(each.setting) for each in _LIMITS},
        },
        check_seconds=verifier.positive("timeout_sec") or CHECK_SECONDS,
        check_env=verifier.texts_by_name("env"),
        command_seconds=ours.positive("command_seconds"),
        toolchains=ours.texts("toolchains"),
        image=image,
        steps=steps,
        strategy=table.text("multi_step_reward_strategy") or "mean",
        warnings=(
            *table.unknown_keys(KNOWN_KEYS),
            *ours.unknown_keys(OURS, "metadata.stackmem."),
            *_unheeded(environment, NOT_HONOURED if image else {**NOT_HONOURED, **ON_HOST}),
        ),
    )


def _refuse_foreign_files(folder: Path) -> None:
    own = folder.resolve()
    for name in _OWN_FILES:
        path = folder / name
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.stat()  # a link to itself
            inside = path.resolve().is_relative_to(own)
        except (OSError, RuntimeError):  # a link to itself
            inside = False
        if not inside:
            raise UsageError(f"{path} is a link out of the task; replace it with the file itself")
    if (folder / "environment" / "workspace").is_symlink():
        raise UsageError(f"{folder / 'environment' / 'workspace'} is a link; replace it with the folder itself")


def _image(folder: Path, environment: TaskTable, verifier: TaskTable, ours: TaskTable) -> TaskImage | None:
    """Return the task's own image, unless it has none or uses this machine's tools.

    A folder ``environment/workspace`` means that it uses this machine's tools: its files are what the agent starts
    with.
    """
    context = folder / "environment"
    recipe, tag = context / "Dockerfile", environment.text("docker_image") or ""
    compose = next((path for name in _COMPOSE if (path := context / name).is_file()), None)
    has_image = recipe.is_file() or bool(tag) or compose is not None
    choice = ours.text("image") or ("host" if (context / "workspace").is_dir() else "own")
    if choice not in ("own", "host"):
        raise ours.wrong("image", "'own' or 'host'")
    if choice == "host" or not has_image:
        return None
    for path in (recipe, *((compose,) if compose else ())):
        if path.is_symlink():
            raise UsageError(f"{path} is a link; replace it with the file itself")
    workdir = environment.text("workdir") or ""
    is_separate = verifier.values.get("environment_mode") == "separate"
    # A named image was built from the recipe, so the recipe is not needed.
    return TaskImage(
        context, None if tag else recipe if recipe.is_file() else None, tag, compose, workdir,
        environment.texts_by_name("env"), is_separate,
    )  # fmt: skip


_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


def _unheeded(environment: TaskTable, keys: Mapping[str, str]) -> list[str]:
    """Return messages about container settings of the task that our sandbox does not support."""
    messages = [
        f"{environment.path}: [environment] {key} is ignored: {reason}"
        for key, reason in keys.items()
        if environment.values.get(key)
    ]
    if environment.values.get("network_mode", "public") != "no-network":
        messages.append(
            f"{environment.path}: the task allows a network; it runs without one unless --network allows it"
        )
    return messages
