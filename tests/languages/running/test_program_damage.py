"""A program's run whose trace was cut, altered, or written while the clock jumped."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stackmem.core.errors import StackmemError
from stackmem.lab.whatif.recorded import WhatIfQuestion, what_if
from stackmem.review.kept.cache_bill import moments_of
from stackmem.review.kept.redact import redact_run
from stackmem.review.kept.run_list import list_runs
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.timeline import timeline
from stackmem.review.replays.live import replay_live
from stackmem.review.replays.model import replay_model
from stackmem.review.report.view import read_runs
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from stackmem.trace.record import Record
from tests.conftest import CAMPAIGN
from tests.languages import tiny
from tests.languages.running.test_run import Desk
from tests.stage import rechain, records

WHOLE = """\
load lib.tiny
write made one
enter part x
keep c chunk
both ask a? & read made & ask b?
leave done
frame Do it.
user who?
shell echo three >> made; cat made
ask last?
say $it
"""
FORGED = 400 if CAMPAIGN else 8


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    tiny.install()
    desk = Desk(tmp_path_factory.mktemp("damage"))
    desk.flags["layer"] = "copy"  # the workspace is rebuilt from the history
    desk.write("a library", "lib.tiny")
    popped = {"call": "pop_frame", "args": {"result": '{"n": 1}'}}
    ran = {"call": "run_command", "args": {"command": "echo two >> made"}}
    desk.script({"text": "2"}, {"text": "3"}, ran, popped, {"text": "6"})
    result = desk.run(WHOLE, ("me",))
    assert (result.run.outcome, result.said) == ("finished", ("6",))
    for name in ("runs", "work"):
        shutil.copytree(desk.root / name, desk.root / "then" / name, symlinks=True)
    return desk


@pytest.fixture
def run(kept: Desk) -> Path:
    """Restore the run to its place and original state."""
    tiny.install()
    for name in ("runs", "work"):
        shutil.rmtree(kept.root / name)
        shutil.copytree(kept.root / "then" / name, kept.root / name, symlinks=True)
    (folder,) = (kept.root / "runs").iterdir()
    return folder


def person() -> Person:
    return Person(lambda _: "me")


def test_a_run_cut_in_any_line_goes_on_to_the_same_end(run: Path, kept: Desk) -> None:
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    begun = Run(run).state
    whole = shutil.copytree(run, kept.root / "whole", symlinks=True)
    for number in range(2, len(lines), 1 if CAMPAIGN else 9):
        shutil.rmtree(run)
        shutil.copytree(whole, run, symlinks=True)
        (run / "result.json").unlink()
        (run / "trace.jsonl").write_bytes(b"".join(lines[:number]) + lines[number][: len(lines[number]) // 2])
        files = kept.root / "work" / run.name / "workspace"
        shutil.rmtree(files)
        files.mkdir()
        Run(run).snapshot(Run(run).state).write_into(files)
        resumed = resume(run, {}, os.environ, person=person())
        assert (resumed.outcome, resumed.torn_bytes) == ("finished", len(lines[number]) // 2)
        assert replay_run(run).events == len(lines) + 1
        state = Run(run).state
        assert (state.tree, state.result, state.step) == (begun.tree, begun.result, begun.step)


READERS: dict[str, Callable[[Path], object]] = {
    "replay": replay_run,
    "redact": lambda folder: redact_run(folder, ["one"]),
    "whatif": lambda folder: list(what_if(str(folder), folder.parent, WhatIfQuestion(("full",)))),
    "list": lambda folder: list_runs(folder.parent),
    "view": lambda folder: read_runs([folder]),
    "state": lambda folder: (Run(folder).state, list(Run(folder).steps), Run(folder).frames),
    "measure": lambda folder: (measure(moments_of(folder)), tuple(timeline(moments_of(folder)))),
    "live": lambda folder: replay_live(Run(folder), os.environ),
    "model": lambda folder: replay_model(Run(folder), os.environ, 2),
    "resume": lambda folder: resume(folder, {}, os.environ, person=person()),
}


def test_a_fact_that_was_altered_under_a_whole_chain_is_read_or_refused_in_a_sentence(run: Path) -> None:
    told, draw, done = records(run), random.Random(1), 0
    (run / "result.json").unlink()
    while done < FORGED:
        place = draw.randrange(len(told))
        forged = _altered(told[place], draw)
        if forged is None or forged.event == told[place].event:
            continue
        done += 1
        for name in draw.sample(list(READERS), 3):
            rechain(run / "trace.jsonl", [*told[:place], forged, *told[place + 1 :]])
            with suppress(StackmemError):
                READERS[name](run)


def _altered(record: Record, draw: random.Random) -> Record | None:
    """Return the record with one changed value in its event; None if no version could have written it."""
    event = _other(msgspec.to_builtins(record.event), draw)
    try:
        return msgspec.convert({"seq": record.seq, "at": record.at, "event": event}, Record)
    except (msgspec.ValidationError, OverflowError):
        return None


def _other(value: Any, draw: random.Random) -> Any:
    match value:
        case dict() if value:
            name = draw.choice(sorted(name for name in value if name != "type") or list(value))
            return {**value, name: _other(value[name], draw)}
        case list() | tuple() if value:
            place = draw.randrange(len(value))
            return [*value[:place], _other(value[place], draw), *value[place + 1 :]]
        case bool():
            return not value
        case str():
            return draw.choice(["", value + "x", value[:-1], "../../etc", "\0", "x" * 100_000, "frame-9", "work", "{"])
        case int() | float():
            return draw.choice([-1, 0, value + 1, 10**18, -(10**9)])
        case _:
            return draw.choice([None, 0, "", [], {}])


@pytest.mark.parametrize(("first", "step", "every"), [(1e9, -1e3, 1000), (0, 0, 1), (-6e10, 0, 1), (1e9, 1e8, 3)])
def test_a_clock_that_jumps_changes_nothing_that_is_verified(run: Path, first: float, step: float, every: int) -> None:
    rechain(run / "trace.jsonl", [replace(one, at=first + one.seq % every * step) for one in records(run)])
    for name in ("result.json", "signatures.jsonl"):
        (run / name).unlink(missing_ok=True)  # they describe the original trace
    for name in ("replay", "redact", "whatif", "view", "measure", "state"):
        READERS[name](run)
