"""Writes a redacted copy of a run next to it. The original is not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import RulesDiffer, UsageError
from stackmem.core.facts import Redaction
from stackmem.core.state import State
from stackmem.foreign.private import write_json
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.result import read_result, result_fields, write_result
from stackmem.run.run_folder import RESULT, RUN, TRACE, new_run, removed_on_failure
from stackmem.trace.lineage import RunReader
from stackmem.trace.open_run import Run
from stackmem.trace.program import keep_source, sources_of
from stackmem.trace.store import TraceWriter
from stackmem.trace.verify import verify

from .redaction import Mask, mask_of, mask_value, matching_records, redact


class Redacted(Struct, frozen=True):
    """A redacted copy."""

    run: str
    run_dir: str
    of: str  # the original's id
    digest: str  # digest of the original's last record
    records: tuple[int, ...]  # numbers of the records in which something was replaced


def redact_run(run_dir: Path, patterns: Sequence[str]) -> Redacted:
    """Copy a run with each match of a pattern replaced by as many ``x``. Its files and its patch are left out.

    Raises:
        UsageError: A pattern is missing or matches nothing, or the copy is not possible with these patterns.
        TraceError: The run's trace is broken, or the copy cannot be written.
        RulesDiffer: The run was made under other rules.
    """
    load_plugins()
    if not patterns:
        raise UsageError("missing pattern; pass --pattern REGULAR-EXPRESSION")
    mask = mask_of(patterns)
    reader = RunReader(run_dir)
    text_of = sources_of(run_dir)

    def source_of(digest: str, packaged: bool) -> str:
        return digest if packaged else hashlib.sha256(mask(text_of(digest)).encode()).hexdigest()

    matches = matching_records(reader, mask, source_of)
    if not matches:
        raise UsageError(f"{run_dir.name} contains no match; share it unchanged, or try another --pattern")
    redaction = Redaction(reader.digest, matches)
    start = Run(run_dir).start
    target = new_run(run_dir.parent, mask(start.task_name), start.strategy)
    with removed_on_failure(target):
        _write(run_dir, target, mask, redaction)
    return Redacted(target.name, str(target), run_dir.name, redaction.digest, matches)


def _write(run_dir: Path, target: Path, mask: Mask, redaction: Redaction) -> None:
    times: list[float] = [0.0]
    writer = TraceWriter(target / TRACE, now=lambda: times[0])
    text_of = sources_of(run_dir)

    def source_of(digest: str, packaged: bool) -> str:
        text = text_of(digest)
        return keep_source(target, text if packaged else mask(text))

    sources = (source_of, sources_of(target))
    try:
        for record in redact(RunReader(run_dir), mask, redaction, lambda: writer.digest, sources):
            times[0] = record.at
            writer.append(record.event)
        writer.sync()
    finally:
        writer.close()
    state = _verify_copy(target)
    write_json(target / RUN, state.begun)
    result = read_result(run_dir / RESULT)
    if result is not None:
        copied = replace(
            mask_value(result, mask), run=target.name, run_dir=str(target), digest=writer.digest, records=writer.count
        )
        write_result(replace(copied, **result_fields(state)), target / RESULT)


def _verify_copy(target: Path) -> State:
    try:
        return verify(RunReader(target), sources_of(target)).state
    except RulesDiffer as error:
        raise UsageError(
            f"with the matches replaced the run takes a different course ({error}); use a narrower pattern"
        ) from error
