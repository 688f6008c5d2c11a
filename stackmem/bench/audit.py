"""What a bench's log is asked: whether the ledger is as it was logged, and to take in a pack from elsewhere, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from stackmem.core.facts import ChecksReturned, RunEnded
from stackmem.errors import TraceError, UsageError
from stackmem.replays.replay import replay_run
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import Lock
from stackmem.trace.signatures import SigningKey

from .ledger import LEDGER, read_lines
from .log import LOG, BenchEntry, BenchLog, LogProof, row_digest, signer_of


class AuditedLog(Struct, frozen=True):
    """What a log that holds says.

    Attributes:
        root: Over all entries, 64 hex digits.
        rows: Lines of the ledger; each is in the log.
        signed: How many entries the newest signed head holds.
        signed_by: Whose key signed it; empty where none did.
    """

    entries: int
    root: str
    rows: int
    signed: int = 0
    signed_by: str = ""


def audit(folder: Path, trusted: Mapping[str, str]) -> AuditedLog:
    """Hold a bench's ledger against its log, and the log against what was signed.

    Raises:
        UsageError: There is no log.
        TraceError: A row is not the one that was logged, an entry was changed, or nobody trusted signed it.
    """
    log = _open(folder)
    logged = {entry.row for entry in log.entries}
    rows = 0
    for rows, line in enumerate(read_lines(folder), 1):
        if row_digest(line) not in logged:
            raise TraceError(
                f"line {rows} of {folder / LEDGER} is not in the bench's log: it was changed, or written before there "
                "was a log; bring it back from a copy"
            )
    if not log.heads:
        return AuditedLog(len(log.entries), log.root, rows)
    names = [signer_of(head, trusted) for head in log.heads]
    return AuditedLog(len(log.entries), log.root, rows, log.heads[-1].size, names[-1])


def prove(folder: Path, named: str) -> LogProof:
    """The proof for a trial's newest entry, or that of a run that was handed in, by its id or digest.

    Raises:
        UsageError: There is no such entry, or it is not signed yet.
    """
    log = _open(folder)
    for index in reversed(range(len(log.entries))):
        entry = log.entries[index]
        if named and named in (entry.trial, entry.run, entry.digest):
            return log.prove(index)
    raise UsageError(f"no trial, run or digest {named[:80]!a} is in {folder / LOG}; its column id names the trials")


def hand_in(folder: Path, run_dir: Path, trusted: Mapping[str, str], open_key: Callable[[], SigningKey]) -> BenchEntry:
    """Take a signed run from elsewhere into a bench's log.

    Raises:
        UsageError: There is no log, or it holds the run, one that it goes on from, or one that goes on from it.
        TraceError: The run is not signed to its end by a trusted key; or another process runs the bench.
        Unsigned: The entry stands, and the log cannot be signed.
    """
    _open(folder)  # before there is a lock file
    replayed = replay_run(run_dir, trusted)
    with closing(Lock(folder / LEDGER, "bench")):
        log = _open(folder)
        known = {entry.digest: number for number, entry in enumerate(log.entries, 1) if entry.digest}
        later = {digest: number for number, entry in enumerate(log.entries, 1) for digest in entry.earlier}
        reader, ends = RunReader(run_dir), []
        for record in reader:
            if reader.digest in known:
                raise _counted(run_dir, folder, known[reader.digest], "one that it goes on from")
            if isinstance(record.event, RunEnded | ChecksReturned):
                ends.append(reader.digest)
        if reader.digest in later:
            raise _counted(run_dir, folder, later[reader.digest], "one that goes on from it")
        earlier = tuple(digest for digest in ends if digest != reader.digest)
        entry = BenchEntry(reader.digest, replayed.outcome, run=run_dir.name, earlier=earlier)
        try:
            log.add(entry)
        except OSError as error:
            raise TraceError(f"{folder / LOG} cannot be written ({error.strerror}); make room or rights") from error
        log.sign(open_key)
        return entry


def _counted(run_dir: Path, folder: Path, number: int, how: str) -> UsageError:
    return UsageError(
        f"{run_dir.name} is refused: entry {number:,} of {folder / LOG} is that run, or {how}; a run counts once"
    )


def _open(folder: Path) -> BenchLog:
    if not (folder / LOG).is_file():
        raise UsageError(f"{folder} holds no log of a bench; stackmem bench -o DIR makes one")
    return BenchLog(folder)
