"""Runs an agent from start to result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.frames import first_heap
from stackmem.core.heap import KeptHeap
from stackmem.core.state import State
from stackmem.core.text import quantity

from .companion.attachments import find_attached, with_attached
from .folder_choice import with_copy
from .interrupts import Interrupts
from .open import open_run
from .opened import Observe, ObserveFrame, ObserveReading, Person, everybody_agrees
from .plan import plan_run
from .play import play
from .ports import PersonPort
from .request import Request
from .result import RunResult


def solve(
    request: Request,
    environ: Mapping[str, str],
    observe: Observe | None = None,  # called with every event and the resulting state
    stop: Callable[[int], object] = os._exit,
    agree: Callable[[Request], object] = everybody_agrees,
    notice: Callable[[str], object] = str,
    person: PersonPort | None = None,  # the user that the agent talks to; None if unattended
    attached: Sequence[str] = (),  # files, folders and images for the task, as ``--attach`` names them
    observe_frame: ObserveFrame | None = None,  # called in the threads of parallel frames
    observe_reading: ObserveReading | None = None,
) -> RunResult:
    """Run the prepared request in a separate workspace and record it.

    Args:
        stop: Ends the program with an exit code, without cleanup, on the second Ctrl-C.
        agree, notice: As in ``Person``.

    Raises:
        UsageError: The request is not possible.
        WorkspaceError: The workspace or its isolation is not available.
        TraceError: The trace or the result cannot be written. Earlier records are complete.
        KeyboardInterrupt: Ctrl-C came before the first fact (SIGTERM: ``SystemExit``). As after ``UsageError`` and
            ``WorkspaceError``, no files are left behind.
    """
    plan = plan_run(request, environ)
    keeps = {"heap_read", "memory"}.intersection(tool.name for tool in plan.tools)
    if request.resolved.settings.heap is not None and not keeps:
        raise UsageError(
            f"the strategy {plan.strategy.name} has no heap and no memory files; omit --heap, or use another strategy"
        )
    files = find_attached(attached, request.subject.folder, request.subject.place, request.cwd)
    plan = replace(plan, request=with_copy(request))
    agree(plan.request)
    talks = Person(
        observe=observe, observe_frame=observe_frame, observe_reading=observe_reading, stop=stop, notice=notice,
        port=person,
    )  # fmt: skip
    with Interrupts(stop) as interrupts, open_run(plan, environ, interrupts, talks) as opened:
        if message := kept_notice(opened.start):
            notice(message)
        with interrupts.setting_up("run", opened.places.scratch):
            start = with_attached(opened.start, files, opened.world)
        return play(start, State(), opened)


def kept_notice(start: RunStarted) -> str:
    """Return the notice for the user about what earlier runs have left, or an empty string if that is nothing."""
    if start.heap is UNSET:
        return ""
    files = f"the memory starts with {quantity(len(start.heap.files), 'kept file')}" if start.heap.files else ""
    return "; ".join(filter(None, (_chunk_notice(start, start.heap), files)))


def _chunk_notice(start: RunStarted, earlier: KeptHeap) -> str:
    if not (earlier.chunks or earlier.left_out):
        return ""
    heap = first_heap(start)
    stale = [name for name in heap.stored if heap.stale(heap.chunks[name])]
    many = "1 kept chunk" if len(heap.stored) == 1 else f"{len(heap.stored):,} kept chunks"
    text = f"the heap starts with {many}"
    text += f", of which {len(stale):,} STALE: {', '.join(stale[:5])}" if stale else ""
    return text + (f"; {earlier.left_out:,} more did not fit (stackmem heap list)" if earlier.left_out else "")
