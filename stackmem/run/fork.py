"""Continues from a recorded state of another run, with changes.

Rule 1: The other run is only read. It keeps the shared data: its records up to the fork and its file objects.
Rule 2: Only the requested changes are made. Without any, the next prompt equals the one of the other run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from stackmem.core.decider import ProgramUnderWay
from stackmem.core.errors import TraceError, UsageError, WorkspaceError
from stackmem.core.facts import ModelReplied, RunForked, RunStarted
from stackmem.core.guidance import program_calls
from stackmem.core.heap import ChunkSet, Heap, faults, no_chunk
from stackmem.core.machine import evolve
from stackmem.core.messages import ToolSpec
from stackmem.core.person_facts import PersonSaid, WordsGiven
from stackmem.core.program_facts import OfferedProgram
from stackmem.core.state import State
from stackmem.core.strategy import budgets_of, has_frames, keeps_thinking
from stackmem.core.tools import HeapRead, StoreEntry, tool_name
from stackmem.core.version import VERSION
from stackmem.foreign.files import read_regular, read_regular_text
from stackmem.memory import open_strategy
from stackmem.memory.shared.constants import run_constants
from stackmem.run.plugins.loading import load_plugins
from stackmem.settings.option_values import ValuePlace, read_value
from stackmem.settings.options import OPTIONS
from stackmem.trace.lineage import RunReader
from stackmem.trace.moments import StepMoment, moment_after
from stackmem.trace.open_run import Run
from stackmem.trace.program import SOURCES, sources_of
from stackmem.trace.record import Record
from stackmem.trace.verify import Replay, verify
from stackmem.trace.walk import state_after
from stackmem.workspace.secrets import Scrubber

from .assemble import scrubber_of
from .in_memory import stays_in_memory
from .interrupts import Interrupts
from .limits import LIMITS, later_limits, refuse_spent
from .open import open_run
from .opened import Observe, ObserveFrame, ObserveReading, Opened, Person
from .plan import Forked, Plan, must_be_original, plan_kept, window_source
from .play import play
from .ports import PersonPort
from .prepare import prepare_kept
from .request import Request
from .result import RunResult, holds_secret
from .stored_request import StoredRequest, read_request, with_model

_HEAP = "heap."
_MAX_CHUNK_BYTES = 64 << 20


class ForkChanges(Struct, frozen=True):
    """Everything that may differ from the forked run. None and empty values keep the original."""

    strategy: str | None = None
    model: str | None = None
    base_url: str | None = None
    window_tokens: int | None = None
    price: str | None = None
    prompt: Path | None = None
    isolation: str | None = None
    checkpoints: str | None = None
    read_calls: str | None = None
    chunks: Mapping[str, str] = {}  # chunk name to content
    dropped: tuple[str, ...] = ()  # chunks to remove from the heap
    limits: Mapping[str, str | None] = {}  # spelled as on the command line: ``50``, ``+50``, ``none``

    def settings(self) -> dict[str, Any]:
        """Return the changed settings by name."""
        values = {
            "strategy": self.strategy,
            "model": self.model,
            "base_url": self.base_url,
            "window_tokens": self.window_tokens,
            "price": self.price,
            "prompt": self.prompt,
            "isolation": self.isolation,
            "checkpoints": self.checkpoints,
            "read_calls": self.read_calls,
        }
        if self.model is not None:  # address, window and price belong to the old model, so reset them too
            return {name: value for name, value in values.items() if value is not None or name in _OF_A_MODEL}
        return {name: value for name, value in values.items() if value is not None}


FORK_SETTINGS = (
    "strategy", "model", "base_url", "window_tokens", "price", "prompt", "isolation", "checkpoints", "read_calls",
)  # fmt: skip
"""The settings that a fork may change."""
_OF_A_MODEL = ("base_url", "window_tokens", "price")


class ForkResult(Struct, frozen=True):
    """Outcome of a fork."""

    result: RunResult
    folder: str  # the user folder that the workspace copies; empty for a task
    checked: bool
    missing: tuple[str, ...] = ()  # dependency folders that no longer exist anywhere; the workspace lacks them


def fork(
    run_dir: Path,
    at: int,  # a step, or 0 for the start
    changes: ForkChanges,
    environ: Mapping[str, str],
    observe: Observe | None = None,  # called for every new event with the resulting state
    stop: Callable[[int], object] = os._exit,
    person: PersonPort | None = None,  # as in ``solve``
    *,
    record: int | None = None,  # number of the last shared record, if it is not the last record of step ``at``
    observe_frame: ObserveFrame | None = None,  # called in the threads of parallel frames
    observe_reading: ObserveReading | None = None,
) -> ForkResult:
    """Play a new run from the state after step ``at`` of another run. It is stored next to that run.

    ``stop`` ends the program with an exit code, without cleanup, on the second Ctrl-C.

    Raises:
        UsageError: The step does not exist, no run can continue from it, or a change is not possible.
        TraceError: The other run's trace is broken, or its files or request are missing.
        WorkspaceError: The workspace or its isolation is not available.
        KeyboardInterrupt: Ctrl-C came before the first fact (SIGTERM: ``SystemExit``). As after ``UsageError`` and
            ``WorkspaceError``, no files are left behind.
    """
    load_plugins()
    run = Run(run_dir.resolve())
    must_be_original(run, "forked")
    moment = run.moment(at) if record is None else moment_after(RunReader(run.folder), record)
    must_go_on(moment, changes)
    scrubber = scrubber_of(environ)
    chunks = chunks_to_set(moment.settled, changes, scrubber.scrub)
    plan = forked_plan(run, moment, changes, environ)
    talks = Person(
        observe=observe, observe_frame=observe_frame, observe_reading=observe_reading, stop=stop, port=person
    )
    with Interrupts(stop) as interrupts, open_run(plan, environ, interrupts, talks) as opened:
        with interrupts.setting_up("fork", opened.places.scratch):
            start = forked_start(moment, changes, plan, opened)
            first = RunForked(run.id, moment.at, moment.digest, start, chunks, changes.dropped)
            refuse_spent(evolve(moment.settled, first), f"at step {moment.step} the run had")
            opened.steps_with_secrets = _steps_with_secrets(run, moment.step, scrubber)
            if opened.stored.program is not None:
                opened.program = _program_at(run, moment, opened)
            else:
                opened.agent = _replayed(run, moment, opened).agent
        result = play(first, moment.settled, opened)
        return ForkResult(result, opened.folder, start.checked, opened.missing)


def forked_plan(
    run: Run, moment: StepMoment, changes: ForkChanges, environ: Mapping[str, str], folder_name: str = ""
) -> Plan:
    """Return the plan of the fork, with the recorded values for everything that is not changed.

    Raise UsageError if the program had not started, a change is not possible, or a cost limit cannot be enforced.

    Args:
        folder_name: As in ``Forked``.
    """
    state, base = moment.settled, moment.settled.begun
    stored = with_model(read_request(run.folder), state, None)
    if stored.program is not None and state.program is None:
        raise UsageError("the program has not started at this point; run it again with stackmem run")
    level = changes.isolation or base.isolation
    stays_in_memory(base.isolation, level)
    prompt = stored.flags.get("prompt")
    settings = {"prompt": prompt, **changes.settings(), "isolation": level}
    request = prepare_kept(stored, run.folder.parent, base, settings, environ)
    plan = _changed(request, stored, base, changes, environ)
    other = changes.model is not None
    name, price = (plan.model.name, plan.model.price) if other else (base.model, base.price)
    limits = later_limits(
        state.limits, changes.limits, name, price, usd_chosen=not other or "max_usd" in stored.flags
    )  # fmt: skip
    flags = {**stored.flags, **changes.settings(), "model": request.model}
    stored = replace(stored, flags=flags)
    return replace(plan, limits=limits, begins=Forked(stored, run, state, moment.at, moment.digest, folder_name))


def _changed(
    request: Request, stored: StoredRequest, base: RunStarted, changes: ForkChanges, environ: Mapping[str, str]
) -> Plan:
    """Return the plan that continues from ``base`` with another strategy or prompt, if these are changed."""
    kept_prompt = changes.prompt is None and (changes.strategy is None or request.resolved.settings.prompt is not None)
    if kept_prompt:  # use the recorded text, because the prompt file may have changed since
        settings = replace(request.resolved.settings, prompt=None)
        request = replace(request, resolved=replace(request.resolved, settings=settings))
    plan = plan_kept(request, stored, base, environ)
    if kept_prompt:
        plan = replace(plan, system=base.system)
    if changes.strategy is None:
        return replace(plan, tools=base.tools, budgets=base.budgets)
    return replace(plan, budgets=budgets_of(plan.strategy, base.budgets))


def forked_start(moment: StepMoment, changes: ForkChanges, plan: Plan, opened: Opened) -> RunStarted:
    """Return the start event of the fork. Its tree stays the one of the oldest run, because patches are relative to
    it.
    """
    base, state = moment.settled.begun, moment.settled
    if opened.start.tree != state.tree:
        raise WorkspaceError(
            "the files of that step cannot be restored exactly; make sure that no other program writes to "
            f"{opened.workspace.path}, or fork at another step"
        )
    model = plan.model
    other = changes.model is not None
    start = replace(
        base,
        model=model.name if other else base.model,
        window_tokens=model.window_tokens if other else base.window_tokens,
        price=model.price if other else base.price,
        window_source=window_source(model) if other else base.window_source,
        strategy=plan.strategy.name,
        system=opened.start.system,
        tools=plan.tools if changes.strategy is None else (*plan.tools, *_own(base)),
        budgets=plan.budgets,
        workspace=opened.workspace.path,
        programs=_moved(base, opened.workspace.path),
        isolation=opened.workspace.level,
        limits=plan.limits,
        version=VERSION,
        rules=opened.start.rules,
        texts=base.texts if changes.strategy is None else opened.start.texts,
        small=base.small if changes.strategy is None else plan.small,
        vision=opened.start.vision,
        read_calls=opened.start.read_calls if changes.read_calls else base.read_calls,
        clearing=base.clearing if plan.strategy.name == base.strategy else opened.start.clearing,
        checkpoints=opened.start.checkpoints if changes.strategy or changes.checkpoints else base.checkpoints,
    )
    # A provider may sign the model's thinking together with the preceding prompt and reject it after a change.
    unchanged = (start.model, start.system, start.tools) == (base.model, base.system, base.tools)
    if not unchanged or run_constants(start) != run_constants(base) or not keeps_thinking(plan.strategy):
        start = replace(start, thinking="dropped")
    return start


def _moved(base: RunStarted, workspace: str) -> tuple[OfferedProgram, ...] | UnsetType:
    """Return the programs that the agent can call, with their paths in the fork's workspace."""
    if base.programs is UNSET:
        return UNSET
    old = f"{base.workspace}/"
    return tuple(
        replace(each, path=f"{workspace}/{each.path.removeprefix(old)}") if each.path.startswith(old) else each
        for each in base.programs
    )


def _own(start: RunStarted) -> tuple[ToolSpec, ...]:
    names = start.registered if start.programs is UNSET else (*start.registered, program_calls.TOOL)
    return tuple(tool for tool in start.tools if tool.name in names)


def _replayed(run: Run, moment: StepMoment, opened: Opened) -> Replay:
    """Replay the run up to ``moment``."""
    parent_text = sources_of(run.folder)

    def text_of(digest: str) -> str:
        own = opened.places.run / SOURCES / digest
        return read_regular(own).decode() if own.is_file() else parent_text(digest)

    return verify(takewhile(lambda record: record.seq <= moment.at, run.records()), text_of)


def _program_at(run: Run, moment: StepMoment, opened: Opened) -> ProgramUnderWay:
    """Return the program in its state at ``moment``.

    Raise RulesDiffer if today's interpreter behaves differently up to this point. Raise TraceError if the program had
    not started, or a source is missing.
    """
    program = _replayed(run, moment, opened).program
    if program is None:
        raise TraceError("the program had not started at this point; run it again with stackmem run")
    return program


def _steps_with_secrets(run: Run, at: int, scrubber: Scrubber) -> tuple[int, ...]:
    replies = (record.event for record in run.records() if isinstance(record.event, ModelReplied))
    return tuple(step for step, reply in zip(range(1, at + 1), replies, strict=False) if holds_secret(reply, scrubber))


def read_changes(flags: Mapping[str, str | None], sets: list[str], drops: list[str], cwd: Path) -> ForkChanges:
    """Parse the changes from command line flags.

    Raise UsageError if a flag is not accepted, or a file cannot be read.

    Args:
        flags: Setting name to text, including limits.
        sets: ``heap.NAME=TEXT`` or ``heap.NAME=@FILE``.
        drops: ``heap.NAME``.
    """
    values = {}
    for name in FORK_SETTINGS:
        text = flags.get(name)
        if text is not None:
            source = ValuePlace(OPTIONS[name].flag, folder=cwd, home=os.environ.get("HOME", ""))
            values[name] = read_value(OPTIONS[name], text, source)
    chunks: dict[str, str] = {}
    for setting in sets:
        name, equals, value = setting.partition("=")
        if not equals or not name.startswith(_HEAP):
            raise UsageError(f"--set {setting[:60]!a} is not a chunk; write heap.NAME=TEXT or heap.NAME=@FILE")
        if name.removeprefix(_HEAP) in chunks:
            raise UsageError(f"--set {name[:80]} is given twice; set each chunk once")
        chunks[name.removeprefix(_HEAP)] = _content(value, cwd) if value.startswith("@") else value
    wrong = next((name for name in drops if not name.startswith(_HEAP)), None)
    if wrong is not None:
        raise UsageError(f"--drop {wrong[:60]!a} is not a chunk; write heap.NAME")
    dropped = tuple(dict.fromkeys(name.removeprefix(_HEAP) for name in drops))
    return ForkChanges(**values, chunks=chunks, dropped=dropped, limits={n: flags.get(n) for n in LIMITS})


def requests_of(records: Iterable[Record]) -> list[tuple[int, str]]:
    """Return each request of a conversation: the number of the record before it, and its text.

    A fork after that record undoes the request.
    """
    pairs: list[tuple[int, str]] = []
    state = State()
    for record in records:
        before, state = state, state_after(state, record)
        requests = state.session.requests if state.session else 0
        if isinstance(record.event, PersonSaid | WordsGiven) and before.session and requests > before.session.requests:
            pairs.append((record.seq - 1, record.event.text))
    return pairs


def _content(value: str, cwd: Path) -> str:
    path = cwd / Path(os.path.expanduser(value[1:]))
    try:
        return read_regular_text(path, _MAX_CHUNK_BYTES)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"--set: {path} cannot be read as text ({error}); name a UTF-8 file") from error


def must_go_on(moment: StepMoment, changes: ForkChanges) -> None:
    """Raise if no run can continue from the state."""
    state = moment.settled
    if not state.stack:
        raise UsageError(f"the run had already ended at step {moment.step}; fork at an earlier step")
    if changes.strategy is None:
        return
    strategy = open_strategy(changes.strategy)
    open_frames = [frame.name for frame in state.stack[1:]]
    if open_frames and not has_frames(strategy):
        raise UsageError(
            f"at step {moment.step} the frames {', '.join(map(repr, open_frames))} are open, but the strategy "
            f"{strategy.name} has no frames; fork at a step where only the root is open, or use a strategy with frames"
        )


def chunks_to_set(state: State, changes: ForkChanges, scrub: Callable[[str], str]) -> tuple[ChunkSet, ...]:
    """Return the chunks to set, with secrets removed. A replaced chunk keeps its description.

    Raise UsageError if a name to drop is not on the heap, or the new chunks exceed a budget.
    """
    heap: Heap = state.heap
    for name in changes.dropped:
        if name not in heap.chunks:
            raise UsageError(f"--drop: {no_chunk(heap, name)}")
        heap = heap.without(name)
    strategy = open_strategy(changes.strategy or state.begun.strategy)
    if changes.chunks and tool_name(HeapRead) not in map(tool_name, strategy.tools):
        raise UsageError(f"--set: the strategy {strategy.name} has no heap; omit --set")
    old = {name: chunk.description for name, chunk in heap.chunks.items()}
    chunks = tuple(
        ChunkSet(name, scrub(content), old.get(name, "")) for name, content in sorted(changes.chunks.items())
    )
    entries = tuple(StoreEntry(chunk.name, chunk.content, chunk.description) for chunk in chunks)
    wrong = faults(heap, entries, state.begun.budgets)
    if wrong:
        raise UsageError(f"--set: {'; '.join(wrong)}")
    return chunks
