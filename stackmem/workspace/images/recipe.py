"""Dockerfiles: read by Docker's own parser, as steps that can be carried out, or with a sentence why they cannot."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.foreign.files import read_start
from stackmem.installing import install_command

_MOST_BYTES = 1 << 20
_VARIABLE = re.compile(r"\\(.)|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])([^}]*))?\})")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][\w.]*)\1")
_SAYS_NOTHING = {
    "LABEL", "EXPOSE", "VOLUME", "STOPSIGNAL", "MAINTAINER", "ONBUILD", "CMD", "ENTRYPOINT", "HEALTHCHECK"
}  # fmt: skip
"""Words that change nothing in a sandbox: it publishes no port, starts no service, and no image is built over it."""


class RecipeStep(Struct, frozen=True):
    """One instruction."""

    word: str  # in capitals
    values: tuple[str, ...]  # as they are written, variables not filled in
    flags: Mapping[str, str] = {}  # name to value; a flag without a value has an empty one
    texts: Mapping[str, str] = {}  # name to text of its here-documents
    listed: bool = False  # the values stood in a JSON list, so no shell takes them apart
    line: int = 1  # from 1

    def shown(self) -> str:
        return f"{self.word} {' '.join(self.values)}".replace("\n", " ")[:120]


def read_recipe(path: Path) -> tuple[RecipeStep, ...]:
    """The steps of a Dockerfile."""
    try:
        import dockerfile  # type: ignore[import-not-found]
    except ImportError as error:
        raise UsageError(f"images need the extra 'images'; install it: {install_command('images')}") from error
    try:
        raw = read_start(path, _MOST_BYTES + 1)
        text = raw[: _MOST_BYTES + 1].decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    if len(raw) > _MOST_BYTES or "\0" in text:
        raise UsageError(f"{path} is no Dockerfile: it is larger than {_MOST_BYTES:,} bytes, or holds a NUL")
    try:
        commands = dockerfile.parse_string(text)
    except dockerfile.GoParseError as error:
        raise UsageError(f"{path} is no Dockerfile that Docker's parser reads: {error}") from error
    steps = tuple(map(_step, commands))
    if not any(step.word == "FROM" for step in steps):
        raise UsageError(f"{path} has no FROM; name the system that it begins with")
    return steps


def _step(command: object) -> RecipeStep:
    word = str(command.cmd).upper()  # type: ignore[attr-defined]
    values = tuple(map(str, command.value))  # type: ignore[attr-defined]
    flags: dict[str, str] = {}
    for flag in command.flags:  # type: ignore[attr-defined]
        name, _, value = flag.removeprefix("--").partition("=")
        flags[name] = f"{flags[name]}\n{value}" if name in flags else value
    quoted = {found[2] for found in _HEREDOC.finditer(" ".join(values)) if found[1]}
    texts = {}
    for document in command.heredocs:  # type: ignore[attr-defined]
        text = str(document.content)
        # A text whose mark is quoted keeps its dollars.
        kept = text.replace("\\", "\\\\").replace("$", "\\$") if document.name in quoted else text
        texts[str(document.name)] = kept
    return RecipeStep(word, values, flags, texts, bool(command.json), int(command.start_line))  # type: ignore[attr-defined]


def filled_in(text: str, variables: Mapping[str, str]) -> str:
    """A value with ``$NAME``, ``${NAME}``, ``${NAME:-word}`` and ``${NAME:+word}`` replaced."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return found[1] if found[1] == "$" else found[0]
        name, how, word = found[2] or found[3], found[4] or "", found[5] or ""
        value = variables.get(name)
        missing = value is None or (how.startswith(":") and not value)
        if how.endswith("-"):
            return filled_in(word, variables) if missing else value or ""
        if how.endswith("+"):
            return "" if missing else filled_in(word, variables)
        if how.endswith("?") and missing:
            raise UsageError(f"the variable {name} is not set: {word or 'give it a value'}")
        return value or ""

    return _VARIABLE.sub(one, text)


def unquoted(text: str) -> str:
    """A value without its quotes, as Docker takes them off."""
    try:
        return " ".join(shlex.split(text)) if text[:1] in "\"'" else text
    except ValueError:
        return text


def pairs(values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names and values of ENV, ARG or LABEL, as the parser gives them."""
    return [(values[at], unquoted(values[at + 1])) for at in range(0, len(values) - 1, 2)]


def why_not(step: RecipeStep) -> str:
    """Why a step cannot be carried out here; empty where it can."""
    sources = step.values[:-1]
    match step.word:
        case "ADD" if any("://" in source or source.startswith("git@") for source in sources):
            return "ADD fetches from an address; use RUN with curl, which --network says something of"
        case "RUN" if "type=secret" in step.flags.get("mount", "") or "type=ssh" in step.flags.get("mount", ""):
            return "RUN --mount=type=secret and type=ssh have no secret to show; put nothing secret into a task"
        case "RUN" if "type=bind" in step.flags.get("mount", ""):
            return "RUN --mount=type=bind is not carried out; use COPY"
        case "RUN" if step.flags.get("security") == "insecure":
            return "RUN --security=insecure needs privileges that no sandbox has"
        case "FROM" if "windows" in step.flags.get("platform", ""):
            return "it is for Windows"
        case word if word not in _KNOWN | _SAYS_NOTHING:
            return f"{word} is no instruction that is known"
    return ""


_KNOWN = {"FROM", "ARG", "ENV", "RUN", "COPY", "ADD", "WORKDIR", "USER", "SHELL"}


def needs_engine(steps: tuple[RecipeStep, ...]) -> str:
    """Why only a container engine can build the steps, as a sentence; empty if the sandbox can."""
    several = [step.line for step in steps if step.word == "FROM"][1:]
    copied = [step.line for step in steps if step.word in ("COPY", "ADD") and "from" in step.flags]
    if not (lines := sorted(several + copied)):
        return ""
    return f"line {lines[0]}: a build in several stages needs podman or docker; install one, or write one stage"


def bases_of(steps: tuple[RecipeStep, ...]) -> list[str]:
    """Names of the base systems that the steps need; none if an engine builds them."""
    if needs_engine(steps):
        return []
    given: dict[str, str] = {}
    found: list[str] = []
    for step in steps:
        if step.word == "ARG":
            given.update(arguments(step))
        elif step.word == "FROM" and (name := filled_in(step.values[0], given)) != "scratch":
            found.append(name)
    return found


def arguments(step: RecipeStep) -> dict[str, str]:
    """Names and defaults of ARG; one without a default is left out."""
    found = {}
    for value in step.values:
        name, equals, default = value.partition("=")
        if equals:
            found[name] = unquoted(default)
    return found
