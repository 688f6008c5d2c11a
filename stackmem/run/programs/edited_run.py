"""A program's run gone on with by an edited program: a new run, which is given the recorded answers for as long as
it asks the same, and then goes on live.

Rule 1: the other run is only read; the new one holds all of its own facts, and is replayed by itself.
Rule 2: files are as they were when the two parted.
Rule 3: of a run that halted, what was asked last is asked again, but for a tool that may not be called twice.
Rule 4: its other sources are read as they are now, too, see ``edited_sources``.
"""

from __future__ import annotations

import posixpath
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import Event
from stackmem.core.machine import fold
from stackmem.core.program_facts import Continued, ProgramStarted, Said, SourceLoaded
from stackmem.core.state import State
from stackmem.errors import UsageError, WorkspaceError
from stackmem.history.history import History
from stackmem.history.sharing import share
from stackmem.languages.program import ProgramDecider
from stackmem.memory import open_strategy
from stackmem.run.assemble import Places, assemble, plan
from stackmem.run.interrupts import Interrupts
from stackmem.run.limits import later_limits, refuse_spent
from stackmem.run.play import Observe, Opened, applied, play
from stackmem.run.prepare import Prepared, prepare_kept
from stackmem.run.refill import must_be_original, refill
from stackmem.run.request import EditedProgram, ProgramRequest, Request, read_request, write_request
from stackmem.run.run_folder import HISTORY, TRACE, new_run
from stackmem.run.solve import remove_unbegun
from stackmem.settings.options import PREFIX
from stackmem.tools.plugins import load_plugins
from stackmem.trace.open_run import Run
from stackmem.trace.program import TextOf, keep_source, program_of, sources_of
from stackmem.trace.program_tape import Tape, play_tape, tape_of
from stackmem.trace.record import Record
from stackmem.trace.store import TraceWriter
from stackmem.version import VERSION
from stackmem.workspace.secrets import Scrubber

from .edited_sources import EditedSources, digest_of_text, reread
from .prepare import read_program
from .resume import idempotent, refuse_unbegun, refuse_unsafe
from .run import Person, ProgramResult, Told, program_world, with_mounts
from .sources import below
from .tools import BUILT_IN


class Parted(Struct, frozen=True):
    """Where the edited program parted from the run.

    Attributes:
        answers: Recorded answers that it was given.
        recorded: How many there were.
        path: The step that it was in, as its language names it; empty before the first.
        changed: Paths of the sources that are other ones now.

    """

    answers: int
    recorded: int
    path: str
    changed: tuple[str, ...] = ()


def continue_program(
    run_dir: Path,
    file: Path,
    wanted: Mapping[str, str | None],
    environ: Mapping[str, str],
    person: Person,
    told: Callable[[Parted], object] = id,
) -> ProgramResult:
    """Run ``file`` in place of the run's program, against its recorded answers while it asks the same.

    Args:
        wanted: Limits, ``isolation`` and ``yes`` as flags spell them; None is not given.
        told: Told where the two part, before anything is asked.

    Raises:
        UsageError: It is no program's run, or a call that may have been made would be made again; nothing is left.
        TraceError: The run's trace is broken, or lacks files or sources.
        RulesDiffer: Today's interpreter does something else in the run as it was.
        WorkspaceError: The workspace or its isolation cannot be had; nothing is left behind.
        KeyboardInterrupt: Ctrl-C came before the first fact; nothing is left behind. (SIGTERM: ``SystemExit``.)

    """
    load_plugins()
    run = Run(run_dir.resolve())
    must_be_original(run, "gone on with")
    request = _edited(run, file)
    scrubber = Scrubber({name: value for name, value in environ.items() if not name.startswith(PREFIX)})
    text = scrubber.scrub(read_program(file))
    with ExitStack() as stack, Interrupts(person.stop) as interrupts:
        try:
            with interrupts.allowed():
                again = _again(run, request, text, wanted, scrubber.scrub)
                places, opened = _opened(run, request, again, environ, (stack, interrupts, person.observe))
                begun = _kept(run, again, places, opened.parts.start.workspace)
                program, facts = _rerun(run, again, begun, opened)
        except KeyboardInterrupt:
            if interrupts.signal == signal.SIGTERM:
                raise SystemExit(128 + signal.SIGTERM) from None
            raise
        except OSError as error:
            raise WorkspaceError(f"the run cannot be set up ({error}); make room or rights there") from error
        told(again.parted)
        heard = Told(person.tell)
        program.listen(heard)
        opened.decider = program
        opened.parts.world.program = program_world(
            opened.parts, opened.places, asked_program(request), replace(person, tell=heard)
        )
        for event in facts:
            if isinstance(event, Said):  # what else is told again was told by the other run
                heard(event)
        state = fold(facts)
        result = play(program.decide(state), state, opened, known=facts)
        result = applied(result, opened.folder, wanted=bool(request.flags.get("apply")))
        return ProgramResult(result, program.value, tuple(heard.said))


def _edited(run: Run, file: Path) -> Request:
    """The run's request, with ``file`` as its program."""
    request, state = read_request(run.folder), run.state
    refuse_unbegun(request, state)
    if request.program is None or state.program is None:
        raise UsageError(f"{run.id} is no run of a program; leave out --program")
    before = request.program.edited
    program = state.program.start.path
    if before is None and below(program, run.start.workspace):
        program = posixpath.relpath(program, run.start.workspace)
    if before is not None:
        edited = replace(before, file=str(file.resolve()))
    else:
        edited = EditedProgram(str(file.resolve()), program, request.subject, run.start.tree)
    return replace(request, program=replace(request.program, edited=edited))


def asked_program(request: Request) -> ProgramRequest:
    """What was asked of the program; raises ``UsageError`` where the request is none of a program's run."""
    if request.program is None:
        raise UsageError("the run's request names no program; leave out --program")
    return request.program


class _Again(Struct, frozen=True):
    """What the new run will be, before anything of it is made.

    Attributes:
        begun: The program as it begins, with the text that is its own now.
        texts: The sources that are other ones now, by digest.
        state: Where the two part.

    """

    tape: Tape
    begun: ProgramStarted
    texts: dict[str, str]
    state: State
    level: str
    limits: Limits
    parted: Parted


def _again(
    run: Run, request: Request, text: str, wanted: Mapping[str, str | None], scrub: Callable[[str], str]
) -> _Again:
    """The edited program run once against the answers, with nothing performed."""
    sources = sources_of(run.folder)
    reader, last = run.records(), deque[Record](maxlen=1)
    tape = tape_of(_noting(reader, last), sources, idempotent() | {*BUILT_IN})
    yes = wanted.get("yes") is not None
    if tape.pending is not None:
        refuse_unsafe(tape.pending, "", idempotent(), yes=yes)
    limits = later_limits(tape.limits, wanted, run.start.model, run.start.price)
    start = replace(tape.start, limits=limits)
    asked = asked_program(request)
    changed: tuple[str, ...] = ()
    texts: dict[str, str] = {}
    if asked.edited is not None:
        now = EditedSources(asked, asked.edited, (start.workspace, run.folder / HISTORY), scrub)
        tape, texts, changed = reread(tape, now, sources)
    begun = replace(tape.begun, digest=digest_of_text(text))
    texts[begun.digest] = text
    program = program_of(begun, start, open_strategy(start.strategy), _instead(texts, sources), keep=False)
    _, state, used = play_tape(program, (start, begun), tape)
    if state.end is not None and state.stack:
        refuse_spent(state)
    path = state.program.path if state.program is not None else ""
    parted = Parted(used, len(tape.heard), path, changed)
    begun = replace(begun, continued=Continued(run.id, last[0].seq, reader.digest, used, len(tape.heard), changed))
    return _Again(tape, begun, texts, state, wanted.get("isolation") or tape.isolation, limits, parted)


def _noting(records: Iterable[Record], last: deque[Record]) -> Iterator[Record]:
    for record in records:
        last.append(record)
        yield record


def _instead(texts: Mapping[str, str], sources: TextOf) -> TextOf:
    """The recorded sources, with those that are other ones now."""
    return lambda digest: texts[digest] if digest in texts else sources(digest)


def _opened(
    run: Run,
    request: Request,
    again: _Again,
    environ: Mapping[str, str],
    held: tuple[ExitStack, Interrupts, Observe | None],
) -> tuple[Places, Opened]:
    """A new run with the files of where the two part."""
    stack, interrupts, observe = held
    base = again.tape.start
    flags = {"isolation": again.level, "max_usd": None, "prompt": None}
    prepared = prepare_kept(request, run.folder.parent, flags, environ)
    folder = new_run(run.folder.parent, base.task_name, again.begun.language)
    places = Places(folder, prepared.folders[1] / folder.name / "workspace", prepared.folders[1] / folder.name)
    stack.callback(remove_unbegun, places)
    refill(run, again.state, places, request)
    planned = plan(prepared, environ)
    if request.program is not None:
        planned = with_mounts(planned, request.program, Path(request.subject))
    profile = replace(planned.profile, network=base.network, command_seconds=base.command_seconds)
    planned = replace(planned, profile=profile, strategy=open_strategy(base.strategy))
    writer = TraceWriter(places.run / TRACE)
    stack.callback(writer.close)
    share(run.folder / HISTORY, places.run / HISTORY, again.state.tree)
    history = History(places.run / HISTORY, places.work, request.leave_out)
    sync = writer.syncs(prepared.resolved.settings.fsync, history.sync)
    parts = assemble(planned, prepared, places, environ, sync, history)
    stack.callback(parts.workspace.close)
    start = replace(
        base,
        workspace=parts.workspace.path,
        isolation=parts.workspace.level,
        limits=again.limits,
        version=VERSION,
    )
    write_request(_asked(request, prepared, places), places.run)
    opened = Opened(
        replace(parts, start=start), places, writer, history, interrupts, request.subject, observe, again.state.seconds
    )
    return places, opened


def _asked(request: Request, prepared: Prepared, places: Places) -> Request:
    flags = {**request.flags, "isolation": prepared.resolved.settings.isolation}
    return replace(request, flags=flags, workspace=str(places.work))


def _kept(run: Run, again: _Again, places: Places, workspace: str) -> ProgramStarted:
    """The program's beginning, with every text that it is given kept beside the new run."""
    text_of = _instead(again.texts, sources_of(run.folder))
    for heard in again.tape.heard:
        if isinstance(heard.event, SourceLoaded) and heard.event.digest:
            keep_source(places.run, text_of(heard.event.digest))
    begun, before = again.begun, again.tape.start.workspace

    def moved(path: str) -> str:
        return workspace + path.removeprefix(before) if Path(path).is_relative_to(before) else path

    options = {name: moved(value) if name == "config" else value for name, value in begun.options.items()}
    keep_source(places.run, text_of(begun.digest))
    return replace(begun, path=moved(begun.path), module_path=moved(begun.module_path), options=options)


def _rerun(run: Run, again: _Again, begun: ProgramStarted, opened: Opened) -> tuple[ProgramDecider, tuple[Event, ...]]:
    """The program where it goes on live, and the facts up to there."""
    start = opened.parts.start
    program = program_of(begun, start, opened.parts.strategy, sources_of(opened.places.run), keep=False)
    facts, state, used = play_tape(program, (start, begun), again.tape)
    if state.tree != again.state.tree:
        raise WorkspaceError(
            f"at isolation {start.isolation} the program asks other things than it did ({used:,} answers were equal, "
            f"and {again.parted.answers:,} before); run it anew with stackmem run"
        )
    return program, facts
