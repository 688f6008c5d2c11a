"""Reads a task folder: Harbor's format, version 1.4, with our own settings under ``[metadata.stackmem]``.

Source: docs/tasks.md.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from stackmem.core.strict_json import parse_toml
from stackmem.errors import UsageError

Keys: TypeAlias = "Mapping[str, Keys | None]"
"""Key to the keys below it; None where anything may stand below."""


# The keys of task.toml, version 1.4, as Harbor's own schema and models list them, and ours. Harbor's parser passes over
# keys it does not know; its linter names them, and so do we.


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

OURS: Keys = _free("max_steps", "max_tokens", "max_usd", "command_seconds", "toolchains")

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
    "docker_image": "the sandbox runs on this machine's own tools",
    "gpus": "the sandbox has none",
    "tpu": "the sandbox has none",
    "mcp_servers": "tool servers come from the person, never from a task",
    "healthcheck": "the sandbox starts no services",
    "skills_dir": "the agent has no skills folder",
    "env": "set what commands need in the files of the task",
}
"""Keys of ``[environment]`` that change what a container offers, and why they change nothing here."""


MAX_TEXT_BYTES = 1024 * 1024
CHECK_SECONDS = 600.0
"""Harbor's own default for ``[verifier] timeout_sec``."""


# A task is somebody else's folder: a link in one of these places would hand over files of the person's.
_OWN_FILES = (
    "task.toml", "instruction.md", "demo.yaml", "environment", "environment/workspace", "tests", "tests/test.sh",
    "solution", "solution/solve.sh",
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Task(Struct, frozen=True):
    """A task as its folder states it; None where it sets nothing.

    Attributes:
        name: As ``[task] name`` has it, ``org/name``; the folder's name where it has none.
        workspace: Files the agent starts with.
        tests: The hidden folder with ``test.sh``.
        solution: The folder with ``solve.sh``.
        demo: The script of a model that solves the task.
        agent_seconds: Wall time of the agent.
        check_seconds: Wall time of the checks.
        check_env: Environment of the checks, as written, ``${VAR}`` not filled in.
        toolchains: Folders that the task asks to have mounted read-only.
        warnings: Sentences about keys that are unknown, or known and not honoured here.
    """

    name: str
    folder: Path
    instruction: str
    tests: Path
    workspace: Path | None = None
    solution: Path | None = None
    demo: Path | None = None
    agent_seconds: float | None = None
    check_seconds: float = CHECK_SECONDS
    check_env: dict[str, str] = {}
    max_steps: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    command_seconds: float | None = None
    toolchains: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        return self.name.rsplit("/", 1)[-1]


def read_task(folder: Path) -> Task:
    """The task in a folder.

    Raises:
        UsageError: The folder, its task.toml, its instruction or its checks are missing or broken.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise UsageError(f"no task folder {folder}; 'stackmem tasks list' shows the tasks there are")
    _refuse_foreign_files(folder)
    table = _Table(folder / "task.toml")
    agent, verifier, environment = table.section("agent"), table.section("verifier"), table.section("environment")
    ours = table.section("metadata").section("stackmem")
    table.refuse_what_we_cannot_run()
    return Task(
        name=table.section("task").text("name") or folder.name,
        folder=folder,
        instruction=_instruction(folder),
        tests=_tests(folder),
        workspace=_existing_folder(folder / "environment" / "workspace"),
        solution=_existing_folder(folder / "solution") if (folder / "solution" / "solve.sh").is_file() else None,
        demo=folder / "demo.yaml" if (folder / "demo.yaml").is_file() else None,
        agent_seconds=agent.positive("timeout_sec"),
        check_seconds=verifier.positive("timeout_sec") or CHECK_SECONDS,
        check_env=verifier.texts_by_name("env"),
        max_steps=ours.count("max_steps"),
        max_tokens=ours.count("max_tokens"),
        max_usd=ours.positive("max_usd"),
        command_seconds=ours.positive("command_seconds"),
        toolchains=ours.texts("toolchains"),
        warnings=(
            *table.unknown_keys(KNOWN_KEYS),
            *ours.unknown_keys(OURS, "metadata.stackmem."),
            *_unheeded(environment),
        ),
    )


def _refuse_foreign_files(folder: Path) -> None:
    own = folder.resolve()
    for name in _OWN_FILES:
        path = folder / name
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.stat()  # from Python 3.13 on, resolve() takes a link to itself
            inside = path.resolve().is_relative_to(own)
        except (OSError, RuntimeError):  # a link to itself
            inside = False
        if not inside:
            raise UsageError(f"{path} is a link that leads out of the task; put the file itself there")
    if (folder / "environment" / "workspace").is_symlink():
        raise UsageError(f"{folder / 'environment' / 'workspace'} is a link; put the folder itself there")


class _Table:
    """A table of task.toml that knows its file and its own name, so that errors can name the key."""

    def __init__(self, path: Path, values: dict[str, Any] | None = None, name: str = "") -> None:
        self.path = path
        self.values = _parsed(path) if values is None else values
        self.name = name

    def wrong(self, key: str, form: str) -> UsageError:
        return UsageError(
            f"{self.path}: {f'[{self.name}] ' if self.name else ''}{key} must be {form}; correct it there"
        )

    def section(self, key: str) -> _Table:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return _Table(self.path, value, f"{self.name}.{key}" if self.name else key)

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(key, "a text that is not empty")
        return value

    def positive(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def count(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise self.wrong(key, "a whole number from 1")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.wrong(key, "a list of texts")
        return tuple(value)

    def texts_by_name(self, key: str) -> dict[str, str]:
        value = self.section(key).values
        if not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(key, "a table of texts")
        for name, text in value.items():
            if not _VARIABLE.fullmatch(name) or "\0" in text:
                raise self.wrong(
                    f"{key}.{name[:60]!a}", "a variable: a name of letters, digits and _, no NUL in its text"
                )
        return dict(value)

    def refuse_what_we_cannot_run(self) -> None:
        if self.values.get("steps"):
            raise UsageError(f"{self.path}: [[steps]] makes this a multi-step task; stackmem runs tasks of one step")
        if self.section("environment").values.get("os", "linux") != "linux":
            raise UsageError(f"{self.path}: [environment] os is not 'linux'; stackmem runs tasks for Linux")

    def unknown_keys(self, known: Keys, name: str = "") -> list[str]:
        """A sentence for each key that neither Harbor's format nor ours has."""
        found = []
        for key, value in self.values.items():
            whole = f"{name}{key}"
            if key not in known:
                found.append(f"{self.path}: unknown key {whole!r} is ignored")
            elif (inner := known[key]) is not None:
                tables = value if isinstance(value, list) else [value]
                for item in tables:
                    if isinstance(item, dict):
                        found += _Table(self.path, item).unknown_keys(inner, f"{whole}.")
        return found


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return _table_in(_read(path, "task.toml"))
    except tomllib.TOMLDecodeError as error:
        what, place = str(error), ""
        if found := re.search(r"\(at line (\d+), column (\d+)\)", what):
            what, place = what[: found.start()].strip(), f"{found[1]}:{found[2]}:"
        raise UsageError(f"{path}:{place} not TOML: {what}; correct it there") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply; a task.toml needs three levels") from error


@lru_cache(maxsize=64)
def _table_in(text: str) -> dict[str, Any]:
    """The table in a text; kept, as many trials of one task read the same one."""
    return parse_toml(text)


def _read(path: Path, what: str) -> str:
    try:
        if not path.is_file():
            raise UsageError(
                f"no {what} in {path.parent}; a task folder has task.toml, instruction.md and tests/test.sh"
            )
        with path.open("rb") as file:
            raw = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); make it readable") from error
    if len(raw) > MAX_TEXT_BYTES:
        raise UsageError(
            f"{path} is larger than {MAX_TEXT_BYTES:,} bytes; move what is long into environment/workspace"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8; save it as UTF-8") from error


def _instruction(folder: Path) -> str:
    text = _read(folder / "instruction.md", "instruction.md").strip()
    if not text:
        raise UsageError(f"{folder / 'instruction.md'} is empty; write there what the agent is to do")
    return text


def _tests(folder: Path) -> Path:
    if not (folder / "tests" / "test.sh").is_file():
        raise UsageError(f"no tests/test.sh in {folder}; it decides whether the task is solved (docs/tasks.md)")
    return folder / "tests"


def _existing_folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _unheeded(environment: _Table) -> list[str]:
    """What the task asks of its container and our sandbox does not give."""
    found = [
        f"{environment.path}: [environment] {key} is not honoured: {reason}"
        for key, reason in NOT_HONOURED.items()
        if environment.values.get(key)
    ]
    if environment.values.get("network_mode", "public") != "no-network":
        found.append(
            f"{environment.path}: the task allows a network; it runs without one unless --network says otherwise"
        )
    return found
