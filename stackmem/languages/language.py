"""What a language is: how its programs start, are outlined, linted and reported. INTERPRETERS maps suffix to language.

A language is the module ``stackmem.languages.<name>.language`` with a ``LANGUAGE``; it is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import ProgramEvent
from stackmem.core.requests import LoadSource
from stackmem.errors import Halted

from .debugger import DebugPort
from .operations import Answer, Operation, Program, ReplyRefused, Source

Happening = Operation | ProgramEvent | Answer | ReplyRefused
"""In their order: an operation before it is settled, the fact and the answer after it, each note as it is given."""

Announcer = Callable[[Happening], tuple[str, ...]]
"""The lines that a person reads of a happening; it may remember what came before."""

Reading = Generator[LoadSource, Source, Any]
"""A part of a program's work that only reads sources."""


class Launch(Struct, frozen=True):
    """What an interpreter is given."""

    path: str  # the program's absolute path, as ``LoadSource.beside`` takes it
    text: str
    inputs: dict[str, Any] = {}  # as the person gave them; the language checks names and fills defaults
    module_path: str = "/workspace"  # the program's folder as its tools see it
    workspace: str = "/workspace"  # the workspace as its tools see it
    # what flags said beyond that: ``entry``, ``config``, ``request``, ``lib``, ``while_limit``, ``checked`` and the
    # model's ``window_tokens``; an absent one was not given
    options: dict[str, Any] = {}
    tools: tuple[ToolSpec, ...] = ()  # the person's own tools
    watch: DebugPort | None = None  # a debugger, where there is one


class Finding(Struct, frozen=True):
    """What a linter found."""

    path: str
    # line, column: from 1
    line: int
    column: int
    severity: Literal["error", "warning", "note"]  # a note is no fault: it says what will be done
    code: str  # ``<language>/<title-in-kebab-case>``
    message: str
    # title, suggestion: for the languages whose report shows them
    title: str = ""
    suggestion: str = ""


class Language(Struct, frozen=True):
    """One language."""

    name: str
    says: str
    # the program, to be run. It raises ``UsageError`` for inputs it does not know, before its first effect other than
    # ``LoadSource``
    start: Callable[[Launch], Program]
    # checks the inputs and resolves the tools as ``start`` would, raises what it would, and returns what ``--dry-run``
    # prints; performs nothing
    outline: Callable[[Launch], Reading]
    # the findings on one file ``(path, text)``, as a tuple; a language that has a ``config`` is also given it, and the
    # person's own tools, by the names ``config`` (a path, or empty) and ``tools``
    lint: Callable[..., Reading]
    announcer: Callable[[], Announcer]  # a new announcer for one run
    # the lines of a file ``(path, text)`` that a debugger can stop at; none of one that is broken
    stop_lines: Callable[[str, str], Iterable[int]] | None = None
    # the findings of one file ``(path, findings)`` in the language's own layout; None has none
    lint_report: Callable[[str, tuple[Finding, ...]], str] | None = None
    # the findings on a program's text that a run tells before it begins; None tells none
    remarks: Callable[[str, str], tuple[Finding, ...]] | None = None
    # the name of a configuration that is looked for in the current directory and above it, then above the program; what
    # is found becomes the option ``config``
    config: str = ""
    # the names of all models beside the run's own that the program asks, as a tuple, where they can be known
    # beforehand; a run that cannot have one of them does not begin
    models: Callable[[Launch], Reading] | None = None
    # what a program's text asks of the run, option name to text, where nothing else speaks: ``max_usd``,
    # ``max_seconds``. It never raises; a text that is broken asks nothing
    settings: Callable[[str], dict[str, str]] | None = None
    # what else ``lint`` is given by name: ``tools`` (the person's own), ``lib`` (paths of libraries)
    lints_with: tuple[str, ...] = ()
    # whether a run is told, by the option ``checked``, to look for static faults before its first effect; a run that
    # was recorded without the option is replayed as it was, without the look
    is_checked: bool = False
    # the halt that running a folder without a main program comes to; None has none
    no_main: Callable[[str], Halted] | None = None

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The ends of files that can be run; a folder's program is ``main`` with one of them."""
        return tuple(end for end, name in INTERPRETERS.items() if name == self.name)


INTERPRETERS: dict[str, str] = {
    ".apl": "apl",
    ".sexp": "sexp",
    ".pb": "playbook",
    ".pbasm": "playbook",
    ".playbook.md": "playbook",
    ".agent.yaml": "loop_agent",
    ".agent.yml": "loop_agent",
}
"""Suffix, lower case, to the language's name; a language adds its lines here."""

LINTED: dict[str, str] = {".tool.apl": "apl", "apl_stl.yml": "apl", ".aplconfig": "apl"}
"""End of a file's name, lower case, to the language that lints it and cannot run it."""


MODULES: dict[str, str] = {}
"""Language to the module with its ``LANGUAGE``, where it is not ``stackmem.languages.<name>.language``."""


def read_with(reading: Reading, load: Callable[[LoadSource], Source]) -> Any:
    """What a reading comes to, each source read by ``load``."""
    try:
        asked = next(reading)
        while True:
            asked = reading.send(load(asked))
    except StopIteration as stop:
        return stop.value


def language_of(path: str, *, linting: bool = False) -> str | None:
    """The language of a file by its name, or None; the longest end wins, in any case of letters."""
    name = path.rsplit("/", 1)[-1].lower()
    ends = sorted((end for end in {**INTERPRETERS, **LINTED} if name.endswith(end)), key=len, reverse=True)
    if not ends:
        return None
    return INTERPRETERS.get(ends[0]) or (LINTED.get(ends[0]) if linting else None)
