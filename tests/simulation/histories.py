"""Histories of one run that crashes repeatedly, each generated from a seed; all must reach the same end.

In a history the first process dies with the trace cut at any byte. Several lives follow, each with a fault: a disk
fault (see ``ground``), Ctrl-C or a kill after some fact, or a disk that is full at some byte. Its provider is late or
fails, and its clock jumps. Files next to the trace may be present, old, partial or missing. The last life has no fault.

The program and its files are real; the ground below them is simulated.
"""

import os
import random
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

import stackmem
from stackmem import RunResult, TraceReader
from stackmem.core.errors import StackmemError, TraceError
from stackmem.core.facts import ChecksReturned, ClockRead, Event, ModelFailed, ModelReplied, RunEnded, RunResumed
from stackmem.core.state import State
from stackmem.lab.worlds import make
from stackmem.review.kept.recover import recover
from stackmem.run.opened import Person
from stackmem.run.resume import resume
from stackmem.trace.signatures import SIGNATURES
from tests.simulation.ground import CALLS_OF_A_LIFE, FAULTS, MODEL, Died, Disk, weather

MINE = ("run", "signal", "run_dir", "workspace", "wall_seconds", "digest", "records", "unsigned")
DEAD = b'{"pid":999999999,"started":1,"boot":"another"}\n'
STOPPED = ("interrupted", "model_error", "workspace_error")


class Reference:
    """The run that never crashed, against which the others are compared."""

    def __init__(self, place: Path) -> None:
        world = make("moving_target", 7, 10, 0.2, place / "world")
        places = {"runs_dir": str(place / "runs"), "sandbox_dir": str(place / "work")}
        with weather(None):
            self.result = stackmem.solve(
                str(world),
                None,
                model=MODEL,
                strategy="stackheap",
                isolation="memory",
                fsync="none",
                max_seconds=30_000_000,
                **places,
            )  # fmt: skip - the marks of ``adaptive`` go by the pace, and the weather changes that
        self.folder = Path(self.result.run_dir)
        self.trace = (self.folder / "trace.jsonl").read_bytes()
        self.request = msgspec.json.decode((self.folder / "request.json").read_bytes())
        self.story = story(self.folder)
        self.told = told(self.result)


def environ() -> dict[str, str]:
    """The caller's environment variables that lead to the signing key."""
    return {name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME") if name in os.environ}


def place_of_histories(other: Path) -> Path:
    """Return a folder in memory if available, because the cost of a disk does not matter here."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else other


def story(run: Path) -> list[Event]:
    """Return the events of a run without interruptions and times."""
    kept: list[Event] = []
    for record in TraceReader(run / "trace.jsonl"):
        match record.event:
            case RunResumed() | ClockRead() | ModelFailed():
                pass
            case RunEnded(ending=ending) if ending in STOPPED:
                pass
            case ChecksReturned(error="the checks were interrupted"):
                del kept[-1]  # verdicts about the interrupted end; both are repeated
            case event:
                kept.append(event)
    return kept


def told(result: RunResult | None) -> dict[str, Any]:
    assert result is not None
    return {name: getattr(result, name) for name in result.__struct_fields__ if name not in MINE}


def live_through(seed: int, reference: Reference, place: Path) -> bytes:
    """Play one history in a private folder and return its final trace.

    Raises:
        AssertionError: Something was lost, left over, or changed.
        Exception: The program failed with an undocumented error.
    """
    chance = Random(seed)
    random.seed(seed)  # retry delays are random
    run = place / reference.folder.name
    begin(run, reference, chance)
    for _ in range(chance.randrange(4)):
        one_life(run, chance)
        spoil(run, reference, chance)
    ends_as(run, reference)
    left = (run / "trace.jsonl").read_bytes()
    shutil.rmtree(place)
    return left


def begin(run: Path, reference: Reference, chance: Random) -> None:
    """Create the state left by the first process: a trace cut anywhere after its first record, and other files."""
    run.mkdir(parents=True)
    shutil.copy(reference.folder / "run.json", run / "run.json")
    flags = reference.request["flags"] | {"fsync": chance.choice(("none", "frame", "step"))}
    (run / "request.json").write_bytes(msgspec.json.encode(reference.request | {"flags": flags}))
    first = reference.trace.index(b"\n") + 1
    kept = reference.trace[: chance.choice([chance.randrange(first, len(reference.trace) + 1), len(reference.trace)])]
    (run / "trace.jsonl").write_bytes(kept if chance.random() < 0.8 else kept[: kept.rindex(b"\n")])
    spoil(run, reference, chance)


def spoil(run: Path, reference: Reference, chance: Random) -> None:
    """Damage files next to the trace as a crash does: a missing, partial or outdated result; a stale lock."""
    result = run / "result.json"
    now = result.read_bytes() if result.exists() else (reference.folder / "result.json").read_bytes()
    ended = any(isinstance(event, RunEnded) for event in story(run))
    match chance.randrange(6):
        case 0 if result.exists():
            result.unlink()
        case 3:
            result.write_bytes(of_an_earlier_end(run, reference, chance))
        case 1:
            result.write_bytes(now[: chance.randrange(max(1, len(now) - 2))])
        case 2 if not ended:
            result.unlink(missing_ok=True)
        case _:
            pass
    if chance.random() < 0.3:
        (run / "run.json").write_bytes(b"")
    if chance.random() < 0.3 and (reference.folder / SIGNATURES).exists():
        signed = (reference.folder / SIGNATURES).read_bytes()
        (run / SIGNATURES).write_bytes(signed[: chance.randrange(len(signed) + 1)])
    if chance.random() < 0.3:
        (run / "trace.lock").write_bytes(DEAD[: chance.randrange(len(DEAD) + 1)])


def digest_of(line: bytes) -> str:
    return line.rstrip(b"\n")[-66:-2].decode()


def of_an_earlier_end(run: Path, reference: Reference, chance: Random) -> bytes:
    """Return an older result, as written by a run that was interrupted before the trace grew."""
    digests = [digest_of(line) for line in (run / "trace.jsonl").read_bytes().splitlines(keepends=True)[:-2]]
    if not digests:
        return b""
    at = chance.randrange(len(digests))  # before the last complete line
    now = replace(reference.result, ending="interrupted", outcome="interrupted", result="")
    return msgspec.json.encode(replace(now, records=at + 1, digest=digests[at]))


def one_life(run: Path, chance: Random) -> None:
    """Continue the run until its fault, then randomize what was not synced."""
    trace = run / "trace.jsonl"
    before = [record.event for record in TraceReader(trace)]
    fault = chance.choice((*FAULTS, *FAULTS, "fact", "ctrl-c after a fact", "full"))
    left = chance.randrange(1, 12) if "fact" in fault else -1
    full = trace.stat().st_size + chance.randrange(4_000) if fault == "full" else None
    forced_each_step = b'"fsync":"step"' in (run / "request.json").read_bytes()
    seen: list[Event] = []

    def observe(event: Event, state: State) -> None:
        seen.append(event)
        if forced_each_step and isinstance(event, ModelReplied | ModelFailed):
            assert disk.forced.count(b"\n") >= trace.read_bytes().count(b"\n") - 1, (
                "the model was asked before the trace was synced"
            )
        if len(seen) == left and fault == "fact":
            disk.dead = True
            raise Died
        if len(seen) == left:
            signal.raise_signal(signal.SIGINT)

    disk = Disk(run, fault, chance.randrange(1, CALLS_OF_A_LIFE), chance)
    with weather(chance) as clock, a_disk_that_ends(full), disk, suppress(Died, StackmemError, KeyboardInterrupt):
        resume(run, {}, environ(), observe, person=Person(clock=clock))
    assert disk.dead or "refused" in fault or not (run / "trace.lock").exists(), "a lock is left"
    kept = [record.event for record in TraceReader(trace)]
    assert kept[: len(before)] == before, "an existing record changed"
    new = kept[len(before) :]
    assert seen in (new[len(new) - len(seen) :], new[:-1][len(new) - 1 - len(seen) :]), "an acknowledged record is lost"
    if fault == "power":
        disk.cut_power()
        take_ways_out(run)
        whole = disk.forced[: disk.forced.rfind(b"\n") + 1]
        assert trace.read_bytes().startswith(whole), "a synced record is lost"


def take_ways_out(run: Path) -> None:
    """Do what error messages tell the user to do after damage from a power cut that the program cannot repair.

    Such damage is a later record without its predecessor or, if syncing is off, a result without its trace.
    """
    trace = run / "trace.jsonl"
    try:
        list(TraceReader(trace))
    except TraceError:
        recover(trace, trace.with_name("saved"))
        trace.with_name("saved").replace(trace)
    if b'"fsync":"none"' in (run / "request.json").read_bytes():
        (run / "result.json").unlink(missing_ok=True)


@contextmanager
def a_disk_that_ends(at: int | None) -> Iterator[None]:
    """Limit file size: a write stops at this size and the next one is refused; None removes the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if at is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def ends_as(run: Path, reference: Reference) -> None:
    """Check the last life, which has no fault: the run equals the reference and no work is left."""
    with weather(None) as clock:
        resumed = resume(run, {}, environ(), person=Person(clock=clock))
    assert story(run) == reference.story, "the events differ"
    kept = msgspec.json.decode((run / "result.json").read_bytes(), type=RunResult)
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    assert (kept.records, kept.digest) == (len(lines), digest_of(lines[-1])), "the verdict has no facts"
    assert told(kept) == reference.told, "the result differs"
    assert resumed.result is None or told(resumed.result) == reference.told
    assert not (run / "trace.lock").exists(), "a lock is left"
    again = resume(run, {}, environ())  # verifies the run like replay
    assert again.result is None, "the resumed run has work left"
    assert again.outcome == kept.outcome
