"""Continues a program's run with an edited program.

The result is a new run. It uses the recorded answers for as long as the edited program asks the same questions, and
then continues live.

Rule 1: the original run is only read. The new run contains all its events and can be replayed independently.
Rule 2: files are as they were at the point of divergence.
Rule 3: if the run halted, its last question is asked again, except for a tool that must not be called twice.
Rule 4: the program's other sources are also read in their current version; see ``edited_sources``.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.decider import LiveMoments, ProgramUnderWay, Watcher
from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.facts import Event
from stackmem.core.machine import fold
from stackmem.core.program_facts import Continued, ProgramStarted, Said, SourceLoaded, StepFailed
from stackmem.core.requests import LoadSource
from stackmem.core.state import State
from stackmem.core.version import VERSION
from stackmem.languages.running.edited_sources import EditedSources, digest_of_text
from stackmem.languages.running.sources import is_below
from stackmem.memory import open_strategy
from stackmem.run.assemble import scrubber_of
from stackmem.run.interrupts import Interrupts
from stackmem.run.limits import later_limits, refuse_spent
from stackmem.run.open import open_run
from stackmem.run.opened import Opened, Person
from stackmem.run.plan import Edited, must_be_original, plan_kept
from stackmem.run.play import play
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.prepare import prepare_kept
from stackmem.run.programs.result import ProgramResult, program_result
from stackmem.run.programs.tools import BUILT_IN
from stackmem.run.repeats import idempotent_tools, refuse_unsafe
from stackmem.run.request import EditedProgram
from stackmem.run.resume import refuse_unbegun
from stackmem.run.run_folder import HISTORY
from stackmem.run.stored_request import StoredRequest, read_request
from stackmem.trace.open_run import Run
from stackmem.trace.program import TextOf, keep_source, program_of, sources_of
from stackmem.trace.record import Record

from .prepare import read_program
from .program_tape import Heard, Tape, play_tape, tape_of


class Divergence(Struct, frozen=True):
    """The point at which the edited program diverged from the run."""

    answers: int  # number of recorded answers used
    recorded: int  # number of recorded answers in total
    path: str  # step at the divergence, as its language names it; empty before the first step
    changed: tuple[str, ...] = ()  # paths of the sources that have changed


def continue_program(
    run_dir: Path,
    file: Path,
    settings: Mapping[str, str | None],  # limits, ``isolation`` and ``yes`` as flags spell them; None if not given
    environ: Mapping[str, str],
    person: Person,
    tell_parted: Callable[[Divergence], object] = id,  # called at the point of divergence, before anything is asked
) -> ProgramResult:
    """Run ``file`` in place of the run's program, using the recorded answers while it asks the same questions.

    Raises:
        UsageError: It is not a program's run, or a call that may have been made would be repeated.
        TraceError: The run's trace is broken, or files or sources are missing.
        RulesDiffer: Today's interpreter behaves differently in the original run.
        WorkspaceError: The workspace or its isolation is not available.
        KeyboardInterrupt: Ctrl-C came before the first fact (SIGTERM: ``SystemExit``).
        Halted: ``person.watch`` ended the program before it continued.
    """
    load_plugins()
    run = Run(run_dir.resolve())
    must_be_original(run, "continued")
    scrubber = scrubber_of(environ)
    moments = LiveMoments(person.watch) if person.watch else None
    text = scrubber.scrub(read_program(file))
    with Interrupts(person.stop) as interrupts, ExitStack() as stack:
        with interrupts.setting_up("run", run.folder):
            replay = _replay(run, _edited_request(run, file), text, settings, scrubber.scrub)
            level = settings.get("isolation") or replay.tape.isolation
            request = prepare_kept(replay.stored, run.folder.parent, replay.tape.start, {"isolation": level}, environ)
            plan = plan_kept(request, replay.stored, replay.tape.start, environ)
        plan = replace(plan, begins=Edited(replay.stored, run, replay.state))
        opened = stack.enter_context(open_run(plan, environ, interrupts, person))
        with interrupts.setting_up("run", opened.places.scratch):
            opened.program, facts = _rerun(run, replay, opened, moments)
        tell_parted(replay.parted)
        state, messages = fold(facts), tuple(event for event in facts if isinstance(event, Said))
        person.tell(messages, state)  # the original run already printed everything else
        opened.program.listen(person.tell)
        if moments is not None:
            moments.go_live()
        opened.program.messages += [each.text for each in messages]
        opened.program.failed += [each for each in facts if isinstance(each, StepFailed)]
        return program_result(play(opened.program.decide(state), State(), opened, facts), opened)


def _edited_request(run: Run, file: Path) -> StoredRequest:
    """Return the run's request with ``file`` as its program."""
    request, state = read_request(run.folder), run.state
    refuse_unbegun(request, state)
    if request.program is None or state.program is None:
        raise UsageError(f"{run.id} is not the run of a program; leave out --program")
    before = request.program.edited
    program = state.program.start.path
    if before is None and is_below(program, run.start.workspace):
        program = posixpath.relpath(program, run.start.workspace)
    if before is not None:
        edited = replace(before, file=str(file.resolve()))
    else:
        edited = EditedProgram(str(file.resolve()), program, request.subject, run.start.tree)
    return replace(request, program=replace(request.program, edited=edited))


class _Replay(Struct, frozen=True):
    """What the new run repeats, before any of it is created."""

    stored: StoredRequest
    tape: Tape
    program_start: ProgramStarted  # the start of the program, with its edited text
    texts: dict[str, str]  # changed sources, by digest
    state: State  # at the point of divergence
    limits: Limits
    parted: Divergence


def _replay(
    run: Run, request: StoredRequest, text: str, settings: Mapping[str, str | None], scrub: Callable[[str], str]
) -> _Replay:
    """Run the edited program once against the recorded answers, without performing effects."""
    sources = sources_of(run.folder)
    reader, last = run.records(), deque[Record](maxlen=1)
    tape = tape_of(_note_last(reader, last), sources, idempotent_tools() | {*BUILT_IN})
    refuse_unsafe(tape.pending, "", yes=settings.get("yes") is not None)
    limits = later_limits(tape.limits, settings, run.start.model, run.start.price)
    start = replace(tape.start, limits=limits)
    changed: tuple[str, ...] = ()
    texts: dict[str, str] = {}
    if request.program is not None and request.program.edited is not None:
        seen = (start.workspace, run.folder / HISTORY)
        now = EditedSources(request.program, request.program.edited, seen, scrub)
        tape, texts, changed = reread_sources(tape, now, sources)
    program_start = replace(tape.program, digest=digest_of_text(text))
    texts[program_start.digest] = text
    program = program_of(program_start, start, open_strategy(start.strategy), _preferring(texts, sources), keep=False)
    _, state, used = play_tape(program, (start, program_start), tape)
    if state.end is not None and state.stack:
        refuse_spent(state)
    path = state.program.path if state.program is not None else ""
    parted = Divergence(used, len(tape.answers), path, changed)
    program_start = replace(
        program_start, continued=Continued(run.id, last[0].seq, reader.digest, used, len(tape.answers), changed)
    )
    return _Replay(request, tape, program_start, texts, state, limits, parted)


def _note_last(records: Iterable[Record], last: deque[Record]) -> Iterator[Record]:
    for record in records:
        last.append(record)
        yield record


def _preferring(texts: Mapping[str, str], sources: TextOf) -> TextOf:
    """Return a lookup for the recorded sources that prefers the changed texts."""
    return lambda digest: texts[digest] if digest in texts else sources(digest)


def _rerun(
    run: Run, replay: _Replay, opened: Opened, watch: Watcher | None
) -> tuple[ProgramUnderWay, tuple[Event, ...]]:
    """Return the program at the point where it continues live, and the events up to there.

    Every text that the program receives is stored in the new run's folder.
    """
    run_dir, before = opened.places.run, replay.tape.start.workspace
    text_of = _preferring(replay.texts, sources_of(run.folder))
    read = [answer.event.digest for answer in replay.tape.answers if isinstance(answer.event, SourceLoaded)]
    for digest in (*filter(None, read), replay.program_start.digest):
        keep_source(run_dir, text_of(digest))

    def moved(path: str) -> str:
        return opened.workspace.path + path.removeprefix(before) if Path(path).is_relative_to(before) else path

    program_start, level = replay.program_start, opened.workspace.level
    options = {name: moved(value) if name == "config" else value for name, value in program_start.options.items()}
    program_start = replace(
        program_start, path=moved(program_start.path), module_path=moved(program_start.module_path), options=options
    )
    start = replace(
        replay.tape.start, workspace=opened.workspace.path, isolation=level, limits=replay.limits, version=VERSION
    )
    program = program_of(program_start, start, opened.strategy, sources_of(run_dir), keep=False, watch=watch)
    facts, state, used = play_tape(program, (start, program_start), replay.tape)
    if state.tree != replay.state.tree:
        raise WorkspaceError(
            f"at isolation {level} the program leaves the recording too early (after {used:,} answers, "
            f"not {replay.parted.answers:,}); start a new run with stackmem run"
        )
    return program, facts


def reread_sources(tape: Tape, edited: EditedSources, text_of: TextOf) -> tuple[Tape, dict[str, str], tuple[str, ...]]:
    """Return the answers with every source in its current version, and which sources changed.

    The result is ``(tape, texts by digest, paths)``.
    """
    texts: dict[str, str] = {}
    changed: dict[str, None] = {}
    answers: list[Heard] = []
    for answer in tape.answers:
        event, effect = answer.event, answer.effect
        if isinstance(event, SourceLoaded) and isinstance(effect, LoadSource):
            before = text_of(event.digest) if event.digest else ""
            text, failed = edited.current_source(effect, event.path, before, event.failed)
            if (text, failed) != (before, event.failed):
                changed[event.path] = None
                texts[digest_of_text(text)] = text
                event = replace(event, digest=digest_of_text(text), chars=len(text), failed=failed)
        answers.append(replace(answer, event=event))
    return replace(tape, answers=tuple(answers)), texts, tuple(changed)
