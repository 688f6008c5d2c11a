"""The keys of task.toml, version 1.4, as Harbor's own schema and models list them, and ours.

Harbor's parser passes over keys it does not know; its linter names them, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Keys: TypeAlias = "Mapping[str, Keys | None]"
"""Key to the keys below it; None where anything may stand below."""


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
