"""A program's run forked: its interpreter is brought to where the fork begins, and goes on from there."""

from __future__ import annotations

from itertools import takewhile

from stackmem.errors import TraceError, UsageError
from stackmem.languages.program import ProgramDecider
from stackmem.run.play import Opened
from stackmem.run.prepare import with_model
from stackmem.run.request import ProgramRequest, Request, read_request
from stackmem.trace.moments import StepMoment
from stackmem.trace.open_run import Run
from stackmem.trace.program import SOURCES, sources_of
from stackmem.trace.verify import verify

from .run import Person, program_world


def request_to_fork(run: Run, moment: StepMoment) -> Request:
    """What was asked of the run.

    Raises:
        UsageError: It is a program's, and at that moment the program had not begun.

    """
    request = with_model(read_request(run.folder), moment.settled, None)
    if request.program is not None and moment.settled.program is None:
        raise UsageError("at its start the program has not begun; run it anew with stackmem run")
    return request


def program_to_fork(
    run: Run, moment: StepMoment, opened: Opened, request: ProgramRequest | None
) -> ProgramDecider | None:
    """The program as it stands at ``moment``, with the fork's world; its questions find nobody.

    None where the run is no program's.

    Raises:
        RulesDiffer: Today's interpreter does something else up to there.
        TraceError: No program had begun by then, or a source is gone.

    """
    if request is None:
        return None
    theirs = sources_of(run.folder)

    def text_of(digest: str) -> str:
        own = opened.places.run / SOURCES / digest
        return own.read_text("utf-8") if own.is_file() else theirs(digest)

    program = verify(takewhile(lambda record: record.seq <= moment.at, run.records()), text_of).program
    if program is None:
        raise TraceError("no program had begun by then; run it anew with stackmem run")
    opened.parts.world.program = program_world(opened.parts, opened.places, request, Person(_nobody))
    return program


def _nobody(question: str) -> None:
    return None
