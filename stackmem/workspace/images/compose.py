"""Compose files: the service that is worked in, and those that run beside it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stackmem.errors import UsageError
from stackmem.foreign.files import read_start

_MAIN = ("main", "client")
_MOST_BYTES = 1 << 20
_REFUSED = {
    "privileged": "it asks for privileges that no sandbox has",
    "devices": "it asks for devices",
    "gpus": "it asks for GPUs",
    "cap_add": "it asks for capabilities",
    "network_mode": "it asks for a network of its own choice",
    "extends": "it extends a service of another file",
}


class ComposeService(Struct, frozen=True):
    """One service.

    Attributes:
        context: The folder of its build; None where it names an image.
        command: In place of its image's own; None keeps that.
        health: A line of shell that succeeds once it can be used.
        hindrances: Why it cannot be started here, a sentence each.
    """

    name: str
    context: Path | None = None
    recipe: Path | None = None
    named: str = ""
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] = {}
    workdir: str = ""
    health: str = ""
    hindrances: tuple[str, ...] = ()


def read_compose(path: Path) -> tuple[ComposeService | None, tuple[ComposeService, ...]]:
    """The service that is worked in, if the file has one, and the others in the order in which they start.

    Raises:
        UsageError: It is no compose file.
    """
    try:
        raw = read_start(path, _MOST_BYTES)
        value: Any = YAML(typ="safe", pure=True).load(raw[:_MOST_BYTES].decode("utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError, RecursionError, ValueError) as error:
        said = str(error).splitlines()
        raise UsageError(f"{path} is no compose file: {said[0] if said else error}") from error
    services = value.get("services") if isinstance(value, dict) else None
    if not isinstance(services, dict) or not all(isinstance(each, dict) for each in services.values()):
        raise UsageError(f"{path} has no services; a compose file lists them under that name")
    found = {str(name): _service(str(name), each, path.parent) for name, each in services.items()}
    main = next((found[name] for name in _MAIN if name in found), None)
    if main is None and len(found) == 1:
        main = next(iter(found.values()))
    order: list[str] = []
    for name in found:
        _after(name, services, order, ())
    return main, tuple(found[name] for name in order if main is None or name != main.name)


def _after(name: str, services: Mapping[str, Any], order: list[str], above: tuple[str, ...]) -> None:
    """Put a service behind those that it depends on."""
    if name in above:
        raise UsageError(f"the services {', '.join(above)} depend on each other")
    for other in services.get(name, {}).get("depends_on") or ():
        if str(other) in services:
            _after(str(other), services, order, (*above, name))
    if name not in order:
        order.append(name)


def _service(name: str, value: Mapping[str, Any], folder: Path) -> ComposeService:
    hindrances = [f"service {name}: {why}" for key, why in _REFUSED.items() if value.get(key)]
    if value.get("volumes") and name not in _MAIN:
        hindrances.append(f"service {name}: its volumes are not mounted; copy the files in its Dockerfile")
    build = value.get("build")
    context = recipe = None
    if build is not None:
        said = {"context": build} if isinstance(build, str) else dict(build)
        context = folder / str(said.get("context", "."))
        recipe = context / str(said.get("dockerfile", "Dockerfile"))
        if not recipe.resolve().is_relative_to(folder.resolve()):
            hindrances.append(f"service {name}: it is built from {recipe}, outside of the task")
    return ComposeService(
        name, context, recipe, "" if context else str(value.get("image") or ""), _words(value), _environment(value),
        str(value.get("working_dir") or ""), _health(value.get("healthcheck")), tuple(hindrances),
    )  # fmt: skip


def _words(value: Mapping[str, Any]) -> tuple[str, ...] | None:
    said = [_split(value.get(key)) for key in ("entrypoint", "command")]
    return None if said == [None, None] else tuple(word for words in said for word in words or ())


def _split(value: Any) -> list[str] | None:
    if value is None:
        return None
    return shlex.split(value) if isinstance(value, str) else [str(each).replace("$$", "$") for each in value]


def _environment(value: Mapping[str, Any]) -> dict[str, str]:
    """Variables that the file itself gives; those of whoever starts it are nobody's business here."""
    said = value.get("environment") or {}
    rows = [str(each).partition("=")[::2] for each in said] if isinstance(said, list) else said.items()
    return {str(name): str(text) for name, text in rows if text is not None and "${" not in str(text)}


def _health(value: Any) -> str:
    test = value.get("test") if isinstance(value, dict) and not value.get("disable") else None
    match test:
        case None | ["NONE"]:
            return ""
        case str():
            return test
        case ["CMD-SHELL", line]:
            return str(line).replace("$$", "$")
        case ["CMD", *words]:
            return shlex.join(str(word).replace("$$", "$") for word in words)
        case _:
            return shlex.join(map(str, test))
