"""Dockerfiles, parsed with Docker's own parser into steps, with messages about unsupported ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.foreign.files import read_start
from stackmem.foreign.installing import install_command

_MAX_BYTES = 1 << 20
_VARIABLE = re.compile(r"\\(.)|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])([^}]*))?\})")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][\w.]*)\1")
_SAYS_NOTHING = {
    "LABEL", "EXPOSE", "VOLUME", "STOPSIGNAL", "MAINTAINER", "ONBUILD", "CMD", "ENTRYPOINT", "HEALTHCHECK"
}  # fmt: skip
"""Instructions without effect in a sandbox: it publishes no ports, starts no services, and is not a base for others."""


class RecipeStep(Struct, frozen=True):
    """One instruction."""

    word: str  # in upper case
    values: tuple[str, ...]  # as written, before variables are substituted
    flags: Mapping[str, str] = {}  # maps names to values; empty for a flag without a value
    texts: Mapping[str, str] = {}  # maps names to the texts of here-documents
    listed: bool = False  # the values are a JSON list, so no shell splits them
    line: int = 1  # 1-based

    def text(self) -> str:
        return f"{self.word} {' '.join(self.values)}".replace("\n", " ")[:120]


def read_recipe(path: Path) -> tuple[RecipeStep, ...]:
    """Read the steps of a Dockerfile.

    Raise UsageError if the file cannot be read or is not a Dockerfile, or the parser is not installed.
    """
    try:
        import dockerfile  # type: ignore[import-not-found]
    except ImportError as error:
        raise UsageError(f"images need the extra 'images'; install it: {install_command('images')}") from error
    try:
        raw = read_start(path, _MAX_BYTES + 1)
        text = raw[: _MAX_BYTES + 1].decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    if len(raw) > _MAX_BYTES or "\0" in text:
        raise UsageError(f"{path} is not a Dockerfile: it is larger than {_MAX_BYTES:,} bytes, or contains a NUL")
    try:
        commands = dockerfile.parse_string(text)
    except dockerfile.GoParseError as error:
        raise UsageError(f"{path} is not a valid Dockerfile: {error}") from error
    steps = tuple(map(_step, commands))
    if not any(step.word == "FROM" for step in steps):
        raise UsageError(f"{path} has no FROM; add the base system")
    return steps


def _step(command: object) -> RecipeStep:
    word = str(command.cmd).upper()  # type: ignore[attr-defined]
    values = tuple(map(str, command.value))  # type: ignore[attr-defined]
    flags: dict[str, str] = {}
    for flag in command.flags:  # type: ignore[attr-defined]
        name, _, value = flag.removeprefix("--").partition("=")
        flags[name] = f"{flags[name]}\n{value}" if name in flags else value
    quoted = {match[2] for match in _HEREDOC.finditer(" ".join(values)) if match[1]}
    texts = {}
    for document in command.heredocs:  # type: ignore[attr-defined]
        text = str(document.content)
        # Variables are not substituted in a here-document with a quoted marker.
        escaped = text.replace("\\", "\\\\").replace("$", "\\$") if document.name in quoted else text
        texts[str(document.name)] = escaped
    return RecipeStep(word, values, flags, texts, bool(command.json), int(command.start_line))  # type: ignore[attr-defined]


def filled_in(text: str, variables: Mapping[str, str]) -> str:
    """Substitute ``$NAME``, ``${NAME}``, ``${NAME:-word}`` and ``${NAME:+word}`` in a value.

    Raise UsageError if ``${NAME:?word}`` names a variable that is not set.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[1]:
            return match[1] if match[1] == "$" else match[0]
        name, how, word = match[2] or match[3], match[4] or "", match[5] or ""
        value = variables.get(name)
        missing = value is None or (how.startswith(":") and not value)
        if how.endswith("-"):
            return filled_in(word, variables) if missing else value or ""
        if how.endswith("+"):
            return "" if missing else filled_in(word, variables)
        if how.endswith("?") and missing:
            raise UsageError(f"the variable {name} is not set: {word or 'give it a value'}")
        return value or ""

    return _VARIABLE.sub(replacement, text)


def unquoted(text: str) -> str:
    """Remove the quotes of a value, as Docker does."""
    try:
        return " ".join(shlex.split(text)) if text[:1] in "\"'" else text
    except ValueError:
        return text


def pairs(values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return names and values of ENV, ARG or LABEL as the parser provides them."""
    return [(values[at], unquoted(values[at + 1])) for at in range(0, len(values) - 1, 2)]


def why_not(step: RecipeStep) -> str:
    """Return why a step is not supported here, or an empty string."""
    sources = step.values[:-1]
    match step.word:
        case "ADD" if any("://" in source or source.startswith("git@") for source in sources):
            return "ADD cannot download from a URL; use RUN with curl and --network"
        case "RUN" if "type=secret" in step.flags.get("mount", "") or "type=ssh" in step.flags.get("mount", ""):
            return "RUN --mount=type=secret and type=ssh are not supported; do not put secrets into a task"
        case "RUN" if "type=bind" in step.flags.get("mount", ""):
            return "RUN --mount=type=bind is not supported; use COPY"
        case "RUN" if step.flags.get("security") == "insecure":
            return "RUN --security=insecure needs privileges that the sandbox does not have"
        case "FROM" if "windows" in step.flags.get("platform", ""):
            return "it is for Windows"
        case word if word not in _INSTRUCTIONS | _SAYS_NOTHING:
            return f"{word} is not a known instruction"
    return ""


_INSTRUCTIONS = {"FROM", "ARG", "ENV", "RUN", "COPY", "ADD", "WORKDIR", "USER", "SHELL"}


def needs_engine(steps: tuple[RecipeStep, ...]) -> str:
    """Return why only a container engine can build the steps, or an empty string if the sandbox can."""
    several = [step.line for step in steps if step.word == "FROM"][1:]
    copied = [step.line for step in steps if step.word in ("COPY", "ADD") and "from" in step.flags]
    if not (lines := sorted(several + copied)):
        return ""
    return f"line {lines[0]}: a build in several stages needs podman or docker; install one, or write one stage"


def bases_of(steps: tuple[RecipeStep, ...]) -> list[str]:
    """Return the base systems that the steps need; empty if an engine builds them."""
    if needs_engine(steps):
        return []
    variables: dict[str, str] = {}
    names: list[str] = []
    for step in steps:
        if step.word == "ARG":
            variables.update(arguments(step))
        elif step.word == "FROM" and (name := filled_in(step.values[0], variables)) != "scratch":
            names.append(name)
    return names


def arguments(step: RecipeStep) -> dict[str, str]:
    """Return names and defaults of ARG, without those that have no default."""
    defaults = {}
    for value in step.values:
        name, equals, default = value.partition("=")
        if equals:
            defaults[name] = unquoted(default)
    return defaults
