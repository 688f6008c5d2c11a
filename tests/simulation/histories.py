"""Histories of one run that dies and dies again, each made by one seed; whatever happens, it comes to the same end.

A history: the first process dies with the trace cut at any byte. Then some lives follow, each ended by a kill or by
Ctrl-C after some fact, by a disk that takes no more at some byte, or by a power cut, which keeps what was forced to the
disk and of the rest a beginning, perhaps with zeros behind it. Files beside the trace are there, old, half or gone. The
last life has no fault.

Real are the program and its files; simulated is only what a crash leaves.
"""

import os
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
from stackmem import RunResult, TraceReader, replay
from stackmem.core.facts import ChecksReturned, ClockRead, Event, RunEnded, RunResumed
from stackmem.core.state import State
from stackmem.errors import StackmemError
from stackmem.run.resume import resume
from stackmem.trace.signatures import SIGNATURES
from stackmem.worlds import make

MINE = ("run", "signal", "run_dir", "workspace", "wall_seconds", "digest", "records")
DEAD = b'{"pid":999999999,"started":1,"boot":"another"}\n'


class Died(BaseException):
    """The process is gone."""


class Reference:
    """The run that never died, and what others are held against."""

    def __init__(self, place: Path) -> None:
        world = make("moving_target", 7, 10, 0.2, place / "world")
        places = {"runs_dir": str(place / "runs"), "sandbox_dir": str(place / "work")}
        self.result = stackmem.solve(str(world), None, model="demo", isolation="memory", fsync="none", **places)
        self.folder = Path(self.result.run_dir)
        self.trace = (self.folder / "trace.jsonl").read_bytes()
        self.story = story(self.folder)
        self.told = told(self.result)


def story(run: Path) -> list[Event]:
    """What happened in a run, whatever stopped it meanwhile, and whenever it happened."""
    kept: list[Event] = []
    for record in TraceReader(run / "trace.jsonl"):
        match record.event:
            case RunResumed() | ClockRead() | RunEnded(ending="interrupted"):
                pass
            case ChecksReturned(error="the checks were interrupted"):
                del kept[-1]  # the end that they judged; it comes again
            case event:
                kept.append(event)
    return kept


def told(result: RunResult | None) -> dict[str, Any]:
    assert result is not None
    return {name: getattr(result, name) for name in result.__struct_fields__ if name not in MINE}


def live_through(seed: int, reference: Reference, place: Path) -> None:
    """One history, in a folder of its own.

    Raises:
        AssertionError: Something was lost, left over, or is another one than it was.
        Exception: The program failed with what is none of its own errors.
    """
    chance = Random(seed)
    run = place / reference.folder.name
    begin(run, reference, chance)
    for _ in range(chance.randrange(4)):
        with suppress(Died):
            one_life(run, chance)
        assert not (run / "trace.lock").exists(), "a lock is left"
        spoil(run, reference, chance)
    ends_as(run, reference)
    shutil.rmtree(place)


def begin(run: Path, reference: Reference, chance: Random) -> None:
    """What the first process left: a trace that is cut anywhere behind its first record, and what else was there."""
    run.mkdir(parents=True)
    for name in ("request.json", "run.json"):
        shutil.copy(reference.folder / name, run / name)
    first = reference.trace.index(b"\n") + 1
    kept = reference.trace[: chance.choice([chance.randrange(first, len(reference.trace) + 1), len(reference.trace)])]
    (run / "trace.jsonl").write_bytes(kept if chance.random() < 0.8 else kept[: kept.rindex(b"\n")])
    spoil(run, reference, chance)


def spoil(run: Path, reference: Reference, chance: Random) -> None:
    """Files beside the trace as a crash leaves them: a result that is gone, half or of another end; a dead lock."""
    result = run / "result.json"
    now = result.read_bytes() if result.exists() else (reference.folder / "result.json").read_bytes()
    ended = any(isinstance(event, RunEnded) for event in story(run))
    match chance.randrange(6):
        case 0 if result.exists():
            result.unlink()
        case 3:
            result.write_bytes(of_an_earlier_end(run, reference, chance))
        case 1:
            result.write_bytes(now[: chance.randrange(len(now) - 2)])
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
    """A result as one wrote it that was interrupted where the trace has grown since."""
    digests = [digest_of(line) for line in (run / "trace.jsonl").read_bytes().splitlines(keepends=True)[:-2]]
    if not digests:
        return b""
    at = chance.randrange(len(digests))  # before the last whole line
    now = replace(reference.result, ending="interrupted", outcome="interrupted", result="")
    return msgspec.json.encode(replace(now, records=at + 1, digest=digests[at]))


def one_life(run: Path, chance: Random) -> None:
    """The run goes on until its fault comes, and leaves what was not forced to the disk to chance."""
    trace = run / "trace.jsonl"
    before = list(TraceReader(trace))
    left = chance.randrange(1, 12)
    seen: list[Event] = []

    def observe(event: Event, state: State) -> None:
        seen.append(event)
        if len(seen) == left and fault == "ctrl-c":
            signal.raise_signal(signal.SIGINT)
        elif len(seen) == left:
            raise Died

    fault = chance.choice(["killed", "ctrl-c", "disk", "power"])
    durable = trace.stat().st_size
    if fault == "disk":
        left = -1
        with a_disk_that_ends(durable + chance.randrange(4_000)), suppress(StackmemError):
            resume(run, {}, os.environ, observe)
    else:
        resume(run, {}, os.environ, observe)
    kept = [record.event for record in TraceReader(trace)]
    assert kept[: len(before)] == [record.event for record in before], "what stood is another one"
    assert kept[len(kept) - len(seen) :] == seen, "what was acknowledged is lost"
    if fault == "power":
        cut_power(trace, durable, chance)


@contextmanager
def a_disk_that_ends(at: int) -> Iterator[None]:
    """No file grows longer: a write is taken up to there, and the next one refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def cut_power(trace: Path, durable: int, chance: Random) -> None:
    whole = trace.read_bytes()
    if len(whole) <= durable:
        return
    kept = whole[: chance.randrange(durable, len(whole) + 1)]
    if kept != whole:  # the trace is forced to the disk before the result is written
        trace.with_name("result.json").unlink(missing_ok=True)
    if not kept.endswith(b"\n") and chance.random() < 0.5:
        kept += bytes(chance.randrange(1, 600))
    trace.write_bytes(kept)


def ends_as(run: Path, reference: Reference) -> None:
    """The last life has no fault: the run is the one that never died, and nothing is left to do."""
    resumed = resume(run, {}, os.environ)
    assert story(run) == reference.story, "another story"
    kept = msgspec.json.decode((run / "result.json").read_bytes(), type=RunResult)
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    assert (kept.records, kept.digest) == (len(lines), digest_of(lines[-1])), "a verdict without its facts"
    assert told(kept) == reference.told, "another result"
    assert resumed.result is None or told(resumed.result) == reference.told
    assert replay(run).outcome == kept.outcome
    assert not (run / "trace.lock").exists(), "a lock is left"
    assert resume(run, {}, os.environ).result is None, "there is something left to do"
