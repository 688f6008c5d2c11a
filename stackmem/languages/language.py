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
    """What an interpreter is given.

    Attributes:
        path: The program's absolute path, as ``LoadSource.beside`` takes it.
        inputs: As the person gave them; the language checks names and fills defaults.
        module_path: The program's folder as its tools see it.
        workspace: The workspace as its tools see it.
        options: What flags said beyond that: ``entry``, ``config``, ``request``, ``lib``, ``while_limit``, ``checked``
            and the model's ``window_tokens``; an absent one was not given.
        tools: The person's own tools.
        watch: A debugger, where there is one.
    """

    path: str
    text: str
    inputs: dict[str, Any] = {}
    module_path: str = "/workspace"
    workspace: str = "/workspace"
    options: dict[str, Any] = {}
    tools: tuple[ToolSpec, ...] = ()
    watch: DebugPort | None = None


class Finding(Struct, frozen=True):
    """What a linter found.

    Attributes:
        severity: A note is no fault: it says what will be done.
        code: ``<language>/<title-in-kebab-case>``.
        line, column: From 1.
        title, suggestion: For the languages whose report shows them.
    """

    path: str
    line: int
    column: int
    severity: Literal["error", "warning", "note"]
    code: str
    message: str
    title: str = ""
    suggestion: str = ""


class Language(Struct, frozen=True):
    """One language.

    Attributes:
        start: The program, to be run. It raises ``UsageError`` for inputs it does not know, before its first effect
            other than ``LoadSource``.
        outline: Checks the inputs and resolves the tools as ``start`` would, raises what it would, and returns what
            ``--dry-run`` prints; performs nothing.
        lint: The findings on one file ``(path, text)``, as a tuple; a language that has a ``config`` is also given it,
            and the person's own tools, by the names ``config`` (a path, or empty) and ``tools``.
        lints_with: What else ``lint`` is given by name: ``tools`` (the person's own), ``lib`` (paths of libraries).
        is_checked: Whether a run is told, by the option ``checked``, to look for static faults before its first effect;
            a run that was recorded without the option is replayed as it was, without the look.
        no_main: The halt that running a folder without a main program comes to; None has none.
        announcer: A new announcer for one run.
        stop_lines: The lines of a file ``(path, text)`` that a debugger can stop at; none of one that is broken.
        models: The names of all models beside the run's own that the program asks, as a tuple, where they can be known
            beforehand; a run that cannot have one of them does not begin.
        settings: What a program's text asks of the run, option name to text, where nothing else speaks: ``max_usd``,
            ``max_seconds``. It never raises; a text that is broken asks nothing.
        remarks: The findings on a program's text that a run tells before it begins; None tells none.
        lint_report: The findings of one file ``(path, findings)`` in the language's own layout; None has none.
        config: The name of a configuration that is looked for in the current directory and above it, then above the
            program; what is found becomes the option ``config``.
    """

    name: str
    says: str
    start: Callable[[Launch], Program]
    outline: Callable[[Launch], Reading]
    lint: Callable[..., Reading]
    announcer: Callable[[], Announcer]
    stop_lines: Callable[[str, str], Iterable[int]] | None = None
    lint_report: Callable[[str, tuple[Finding, ...]], str] | None = None
    remarks: Callable[[str, str], tuple[Finding, ...]] | None = None
    config: str = ""
    models: Callable[[Launch], Reading] | None = None
    settings: Callable[[str], dict[str, str]] | None = None
    lints_with: tuple[str, ...] = ()
    is_checked: bool = False
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
