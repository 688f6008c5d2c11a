"""The interface of a language: how its programs are started, outlined, linted and reported.

A language is a module ``stackmem.languages.<name>.language`` with a ``LANGUAGE`` attribute, imported on first use.
``INTERPRETERS`` maps file suffixes to languages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from itertools import dropwhile, takewhile
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.errors import Halted
from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import ProgramEvent, ToolAnswered
from stackmem.core.requests import LoadSource

from .debugger import MomentListener
from .operations import Answer, Completion, FrameAnswer, Operation, Program, ReplyRefused, Source

Happening = Operation | ProgramEvent | Answer | ReplyRefused
"""An operation before it is settled, the event and the answer that settle it, and each note when it is yielded.

Happenings are reported in order.
"""

Announcer = Callable[[Happening], tuple[str, ...]]
"""Returns the lines to show the user for a happening. It may keep state between calls."""
_NOT_WORDS = re.compile(r"[^a-z0-9]+")


def answer_lines(happening: Happening) -> tuple[str, ...]:
    """Return the lines for an answer: the result of a frame, a completion's text, or why an operation failed."""
    match happening:
        case FrameAnswer() | Completion() | ToolAnswered() if happening.failed:
            return (f"  failed ({happening.failed}): {happening.detail}",)
        case FrameAnswer():
            return (f"  {happening.result}",)
        case Completion():
            return (f"  {happening.text}",)
        case _:
            return ()


Reading = Generator[LoadSource, Source, Any]
"""A part of a program's work that only reads sources."""


class Launch(Struct, frozen=True):
    """The arguments of an interpreter."""

    path: str  # absolute path of the program, in the form ``LoadSource.beside`` expects
    text: str
    inputs: dict[str, Any] = {}  # as the user gave them; the language checks the names and fills in defaults
    module_path: str = "/workspace"  # the program's folder as its tools see it
    workspace: str = "/workspace"  # the workspace as its tools see it
    # options from flags: ``entry``, ``config``, ``request``, ``lib``, ``while_limit``; those of ``new_options``; the
    # model's ``window_tokens``. An option that was not given is absent
    options: dict[str, Any] = {}
    tools: tuple[ToolSpec, ...] = ()  # the user's own tools
    watch: MomentListener | None = None  # a debugger, if one is attached


class Finding(Struct, frozen=True):
    """One finding of a linter."""

    path: str
    # line and column count from 1
    line: int
    column: int
    severity: Literal["error", "warning", "note"]  # a note is not a fault: it announces what will be done
    code: str  # ``<language>/<title-in-kebab-case>``
    message: str
    # title and suggestion: only for languages whose report shows them
    title: str = ""
    suggestion: str = ""


def finding_code(language: str, title: str) -> str:
    """Return ``<language>/<title-in-kebab-case>``."""
    return f"{language}/{_NOT_WORDS.sub('-', title.lower()).strip('-')}"


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without repetitions, by position; at one position, errors come first."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda each: (each.line, each.column, each.severity, each.code)))


class ProgramInterface(Struct, frozen=True):
    """A program as a tool: what it does, and what it takes."""

    description: str  # from the program's own text; empty if it says nothing about itself
    inputs: dict[str, Any]  # JSON Schema of its inputs, an object


def inputs_schema(properties: dict[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the schema of a program's inputs."""
    needed = list(required)
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": needed} if needed else {})


def leading_comment(text: str, sign: str) -> str:
    """Return the comment at the beginning of a text as one line, without the first line of a script."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith("#!")]
    comment = takewhile(lambda line: line.startswith(sign), dropwhile(lambda line: not line, lines))
    return " ".join(" ".join(line.lstrip(sign) for line in comment).split())


class Language(Struct, frozen=True):
    """One language and its entry points."""

    name: str
    says: str
    # Returns the program to run. It raises ``UsageError`` for unknown inputs, before any effect other than
    # ``LoadSource``.
    start: Callable[[Launch], Program]
    # Checks the inputs and resolves the tools like ``start``, raises the same errors, and returns the text that
    # ``--dry-run`` prints. It performs no effects.
    outline: Callable[[Launch], Reading]
    # Returns the findings on one file ``(path, text)`` as a tuple. A language with a ``config`` also receives the
    # keyword arguments ``config`` (a path, or empty) and ``tools`` (the user's own tools).
    lint: Callable[..., Reading]
    announcer: Callable[[], Announcer]  # creates the announcer for one run
    # returns the lines of a file ``(path, text)`` at which a debugger can stop; empty if the file does not parse
    stop_lines: Callable[[str, str], Iterable[int]] | None = None
    # formats the findings of one file ``(path, findings)`` in the language's own layout, if it has one
    lint_report: Callable[[str, tuple[Finding, ...]], str] | None = None
    # returns findings on a program's text that a run prints before it starts
    remarks: Callable[[str, str], tuple[Finding, ...]] | None = None
    # Name of a configuration file. It is looked up in the current directory and its parents, then in the program's
    # folder and its parents; the path found becomes the option ``config``.
    config: str = ""
    # Returns, as a tuple, the names of all other models that the program uses, as far as they are known in advance. The
    # run does not start if one of them is unavailable.
    models: Callable[[Launch], Reading] | None = None
    # Settings that a program's text requests, by option name: ``max_usd``, ``max_seconds``. They apply only if no other
    # source sets them. It never raises; a text that does not parse requests no settings.
    settings: Callable[[str], dict[str, str]] | None = None
    # further keyword arguments of ``lint``: ``tools`` (the user's own tools), ``lib`` (paths of libraries)
    lints_with: tuple[str, ...] = ()
    # returns the ``ProgramInterface`` of a program that can be read
    interface: Callable[[Launch], Reading] | None = None
    # Whether new runs get the option ``checked``, which looks for static faults before the first effect. A run recorded
    # without the option is replayed without the check.
    is_checked: bool = False
    # returns the error for a folder without a main program, if the language defines one
    no_main: Callable[[str], Halted] | None = None

    @property
    def new_options(self) -> dict[str, Any]:
        """Options of every new run. They are recorded; an older run, which lacks some, is replayed as it was made.

        ``replies`` lets playbooks, also called ones, read replies by later versions of their contract.
        """
        return {**({"checked": True} if self.is_checked else {}), "replies": "loose"}

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes of runnable programs. A folder's main program is ``main`` plus one of them."""
        return tuple(end for end, name in INTERPRETERS.items() if name == self.name)


INTERPRETERS: dict[str, str] = {
    ".apl": "apl",
    ".sexp": "sexp",
    ".pb": "playbook",
    ".pbasm": "playbook",
    ".playbook.md": "playbook",
    ".agent.yaml": "loop_agent",
    ".agent.yml": "loop_agent",
    ".step.py": "python",
}
"""Maps lower-case file suffixes to language names. Each language adds its own lines here."""

LANGUAGE_SUFFIXES: dict[str, str] = {".py": "python"}
"""Maps suffixes to the language of a file that the user names. In a folder, files with them are not programs."""

LINTED: dict[str, str] = {".tool.apl": "apl", "apl_stl.yml": "apl", ".aplconfig": "apl"}
"""Maps lower-case file name endings to the language that can lint, but not run, such a file."""


MODULES: dict[str, str] = {}
"""Module of a language's ``LANGUAGE``, for languages not in ``stackmem.languages.<name>.language``."""


def read_with(reading: Reading, load: Callable[[LoadSource], Source]) -> Any:
    """Run a reading to its end, loading each source with ``load``, and return its result."""
    try:
        source = next(reading)
        while True:
            source = reading.send(load(source))
    except StopIteration as stop:
        return stop.value


def language_of(path: str, *, linting: bool = False, explicit: bool = False) -> str | None:
    """Return the language for a file name, or None. The longest matching suffix wins; case is ignored.

    Set ``explicit`` if the user named this file as a program, instead of a folder that contains it.
    """
    name = path.rsplit("/", 1)[-1].lower()
    ends = sorted((end for end in {**INTERPRETERS, **LINTED} if name.endswith(end)), key=len, reverse=True)
    if not ends:
        return next((language for end, language in LANGUAGE_SUFFIXES.items() if explicit and name.endswith(end)), None)
    return INTERPRETERS.get(ends[0]) or (LINTED.get(ends[0]) if linting else None)
