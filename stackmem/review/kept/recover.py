"""Saves the intact part of a broken run as a new run next to it, with its own workspace if possible."""

from __future__ import annotations

import os
import time
from contextlib import closing
from itertools import islice
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.errors import StackmemError, TraceError, UsageError
from stackmem.core.state import State
from stackmem.foreign.files import open_regular
from stackmem.foreign.private import owners, write_json
from stackmem.history.history import History, folder_under
from stackmem.history.layer import Overlay, hidden_again, make_upper
from stackmem.history.restore import restore
from stackmem.run.run_folder import HISTORY, RUN, TRACE, new_run, removed_on_failure
from stackmem.run.stored_request import read_request, write_request
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import Lock
from stackmem.trace.open_run import Run
from stackmem.trace.record import WAY_OUT
from stackmem.trace.snapshot import Snapshot
from stackmem.trace.store import TraceReader
from stackmem.trace.walk import state_after
from stackmem.workspace.tree import copy_folder, remove_tree


class Recovered(Struct, frozen=True):
    """The result of a recovery."""

    run: str  # the new run's id
    run_dir: str
    records: int  # its records, including those of its parents
    step: int
    lost_bytes: int  # size of the part of the broken file that was not saved
    reason: str = field(name="why")  # what is wrong with the broken file
    not_resumable: str = ""  # why the new run cannot be resumed; empty if it can


def recover_run(run_dir: Path) -> Recovered:
    """Save the intact beginning of a run. The broken run is not changed.

    Raise UsageError if the run's file is intact. Raise TraceError if nothing can be saved, a process is writing the
    run, or the disk has no room for the new run.
    """
    lock = Lock(run_dir / TRACE)
    try:
        start = Run(run_dir).start
        target = new_run(run_dir.parent, start.task_name, start.strategy)
        with removed_on_failure(target):
            saved = recover(run_dir / TRACE, target / TRACE)
            count, state = 0, State()
            for record in RunReader(target):
                count, state = record.seq, state_after(state, record)
            write_json(target / RUN, state.begun)
        return Recovered(
            run=target.name,
            run_dir=str(target),
            records=count,
            step=state.step,
            lost_bytes=saved.lost_bytes,
            reason=saved.reason,
            not_resumable=_with_files(run_dir, target, state),
        )
    finally:
        lock.close()


def _with_files(run_dir: Path, target: Path, state: State) -> str:
    """Give the new run a copy of the history and its workspace at that moment. Returns why this failed, or an empty
    string.
    """
    if not state.tree:
        return "the run stored no files"
    scratch = None
    try:
        request = read_request(run_dir)
        scratch = Path(request.workspace).parent.parent / target.name
        copy_folder(run_dir / HISTORY, target / HISTORY)
        work = scratch / "workspace"
        scratch.mkdir(mode=0o700, parents=True)
        if folder := folder_under(target / HISTORY):
            hidden = hidden_again(folder, request.include, (target.parent, scratch.parent))
            make_upper(folder, scratch)
            with closing(Overlay(folder, scratch, hidden)) as overlay:
                restore(
                    History(target / HISTORY, work, overlay=overlay), target / HISTORY, work, state.tree, time.time()
                )
        else:
            work.mkdir()
            Snapshot(target / HISTORY, state.tree).write_into(work)
        write_request(replace(request, workspace=str(work)), target)
    except (StackmemError, OSError) as error:
        if scratch is not None:
            remove_tree(scratch)
        return f"its files are not available: {error}"
    return ""


class Saved(Struct, frozen=True):
    """The result of saving a file."""

    lines: int  # number of intact lines, which were copied byte for byte
    lost_bytes: int  # length of the rest
    reason: str = field(name="why")  # what is wrong with the rest


def recover(source: Path, target: Path) -> Saved:
    """Copy the complete lines before the first broken one into the new file ``target``, and sync it to the disk.

    Raise UsageError if the trace is intact. Raise TraceError if no line can be saved, or ``target`` cannot be written.
    """
    reader = TraceReader(source)
    lines, reason = 0, ""
    try:
        for _ in reader:
            lines += 1
    except TraceError as error:
        reason = str(error).removesuffix(WAY_OUT)
    if reader.torn_bytes:
        reason = f"a crash cut off the record in its last {reader.torn_bytes:,} bytes"
    if not reason:
        raise UsageError(f"the trace {source} is intact, so it needs no recovery; stackmem replay checks it further")
    if not lines:
        raise TraceError(f"no record of {source} can be saved: {reason}; restore the file from a backup")
    try:
        with open_regular(source) as broken, open(target, "xb", opener=owners) as saved:
            saved.writelines(islice(broken, lines))
            saved_bytes = saved.tell()
            saved.flush()
            os.fsync(saved.fileno())
            lost = broken.seek(0, os.SEEK_END) - saved_bytes
    except OSError as error:
        raise TraceError(f"the trace cannot be saved to {target} ({error.strerror}); free disk space there") from error
    return Saved(lines, lost, reason)
