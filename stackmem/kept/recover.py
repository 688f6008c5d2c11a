"""Saves what is good of a broken run into a new run beside it, with a workspace of its own where that can be had."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.machine import evolve
from stackmem.core.state import State
from stackmem.errors import StackmemError, TraceError
from stackmem.run.checks import copy_folder
from stackmem.run.request import read_request, write_request
from stackmem.run.run_folder import HISTORY, RUN, TRACE, new_run
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import Lock
from stackmem.trace.open_run import Run
from stackmem.trace.private import write_json
from stackmem.trace.recover import recover
from stackmem.trace.snapshot import Snapshot
from stackmem.workspace.tree import remove_tree


class Recovered(Struct, frozen=True):
    """What was saved.

    Attributes:
        run: The new run's id.
        records: Records that it holds, those of its parents included.
        lost_bytes: What of the broken file was left behind.
        why: What is wrong with it.
        not_resumable: Why the new run cannot be resumed; empty where it can.
    """

    run: str
    run_dir: str
    records: int
    step: int
    lost_bytes: int
    why: str
    not_resumable: str = ""


def recover_run(run_dir: Path) -> Recovered:
    """Save the good beginning of a run; the broken one is only read.

    Raises:
        UsageError: Its file is whole.
        TraceError: Nothing can be saved, a process is writing the run, or there is no room for the new one.
    """
    lock = Lock(run_dir / TRACE)
    try:
        start = Run(run_dir).start
        target = new_run(run_dir.parent, start.task_name, start.strategy)
        try:
            saved = recover(run_dir / TRACE, target / TRACE)
            count, state = 0, State()
            for record in RunReader(target):
                count, state = record.seq, evolve(state, record.event)
            write_json(target / RUN, state.begun)
        except OSError as error:
            remove_tree(target)
            raise TraceError(f"the run cannot be saved to {target} ({error.strerror}); make room there") from error
        except BaseException:
            remove_tree(target)
            raise
        return Recovered(
            run=target.name,
            run_dir=str(target),
            records=count,
            step=state.step,
            lost_bytes=saved.lost_bytes,
            why=saved.why,
            not_resumable=_with_files(run_dir, target, state),
        )
    finally:
        lock.close()


def _with_files(run_dir: Path, target: Path, state: State) -> str:
    """Give the new run the other's history and a workspace as of then; why it has none, where it cannot."""
    if not state.tree:
        return "the run kept no files"
    scratch = None
    try:
        request = read_request(run_dir)
        scratch = Path(request.workspace).parent.parent / target.name
        copy_folder(run_dir / HISTORY, target / HISTORY)
        work = scratch / "workspace"
        scratch.mkdir(mode=0o700, parents=True)
        work.mkdir()
        Snapshot(target / HISTORY, state.tree).write_into(work)
        write_request(replace(request, workspace=str(work)), target)
    except (StackmemError, OSError) as error:
        if scratch is not None:
            remove_tree(scratch)
        return f"its files cannot be had: {error}"
    return ""
