"""A program's run forked: its interpreter is brought to where the fork begins, and goes on from there."""

from __future__ import annotations

from itertools import takewhile

from stackmem.core.facts import RunForked
from stackmem.core.machine import evolve
from stackmem.errors import TraceError, UsageError
from stackmem.run.play import Loop, Opened
from stackmem.run.prepare import with_model
from stackmem.run.request import ProgramRequest, Request, read_request
from stackmem.trace.moments import StepMoment
from stackmem.trace.open_run import Run
from stackmem.trace.program import SOURCES, sources_of
from stackmem.trace.verify import verify

from .run import Person, outer_world, program_loop


def request_to_fork(run: Run, moment: StepMoment) -> Request:
    """What was asked of the run.

    Raises:
        UsageError: It is a program's, and at that moment the program had not begun.

    """
    request = with_model(read_request(run.folder), moment.settled, None)
    if request.program is not None and moment.settled.program is None:
        raise UsageError("at its start the program has not begun; run it anew with stackmem run")
    return request


def fork_loop(
    run: Run, moment: StepMoment, first: RunForked, opened: Opened, request: ProgramRequest | None
) -> Loop | None:
    """The loop of a program that goes on from ``moment`` with what the fork changes; its questions find nobody.

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

    course = verify(takewhile(lambda record: record.seq <= moment.at, run.records()), text_of).course
    if course is None:
        raise TraceError("no program had begun by then; run it anew with stackmem run")
    course.saw(first, evolve(moment.settled, first))
    outer = outer_world(opened.parts, opened.places, request, Person(_nobody))
    return program_loop(course, outer, (first,))


def _nobody(question: str) -> None:
    return None
