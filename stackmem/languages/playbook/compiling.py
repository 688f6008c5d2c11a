"""Turns playbooks of plain sentences into coded ones: by a model, once for each text.

A compiled program begins with a comment that names the digest of what it was compiled from; while that is still the
program's digest, no model is asked.
"""

from __future__ import annotations

import hashlib
import posixpath
import re

from stackmem.core.messages import Breakpoint
from stackmem.languages.effects import Complete, Completion, LoadSource, Source, prompt

from .faults import PlaybookError, halted
from .here import Doing
from .nodes import Program
from .reader import read_program

INSTRUCTIONS = "stackmem:playbook/compile.md"
MOST_TRIES = 3
_HEADER = re.compile(r"<!-- compiled from sha256:([0-9a-f]{64}) -->\n?")
_FENCED = re.compile(r"\A\s*(`{3,}|~{3,})[\w.]*\n(.*)\n\1\s*\Z", re.S)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def header(text: str) -> str:
    return f"<!-- compiled from sha256:{digest_of(text)} -->\n"


def compiled_path(path: str) -> str:
    """The file beside a program that its compiled form is kept in."""
    stem = posixpath.basename(path)
    for suffix in (".playbook.md", ".pb"):
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
            break
    return f"{stem}.pbasm"


def compiled(path: str, text: str) -> Doing:
    """``(program, text)`` of a plain program in its coded form.

    Raises:
        Halted: The model's answers are no coded program.

    """
    kept: Source = yield LoadSource(compiled_path(path), path)
    found = _HEADER.match(kept.text)
    if found and found[1] == digest_of(text):
        return read_program(kept.text), kept.text
    instructions: Source = yield LoadSource(INSTRUCTIONS)
    asked, fault = text, None
    for _ in range(MOST_TRIES):
        answer: Completion = yield Complete(
            prompt(asked), system=instructions.text, breakpoints=(Breakpoint(-1, 0, "1h"),), name="compile"
        )
        made = header(text) + _unfenced(answer.text)
        try:
            return _coded(made), made
        except PlaybookError as error:
            fault = error
            asked = (
                f"{text}\n\n---\nThe last answer was no coded program: line {error.line}: {error.message}\n"
                f"It was:\n{answer.text[:20_000]}"
            )
    told = f"{MOST_TRIES} answers were no coded program; the last: {fault.message if fault else ''}"
    raise halted("Compilation Failed", told, path)


def _coded(text: str) -> Program:
    program = read_program(text)
    for _, book in program.all():
        if book.plain:
            raise PlaybookError("Step Without Code", f"the steps of {book.name} have no codes", book.line)
    return program


def _unfenced(text: str) -> str:
    found = _FENCED.match(text)
    return (found[2] if found else text).strip() + "\n"
