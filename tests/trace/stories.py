"""Traces for export tests: built as records one second apart, and saved as run folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.facts import Event, RunEnded
from stackmem.formats.exports import EXPORTS
from stackmem.trace.record import Record
from stackmem.trace.store import write_line
from tests.build import PRICE, Played, World, alloc, call, do, failed, play, pop, push, reply, started, stored
from tests.golden.stories import calculator, mishaps

BEGAN = 1_795_186_800.0


def records(events: Iterable[Event]) -> list[Record]:
    return [Record(seq, BEGAN + seq, event) for seq, event in enumerate(events, 1)]


def family() -> Played:
    """Three frames deep, with a priced model, a failing provider, two parallel calls, and a heap."""
    return play(
        alloc("spec", "1 + 1", source="a.py"),
        push(name="outer", store=[stored("plan", "first this")]),
        do("heap_read", name="spec"),
        push(name="inner", objective="Go on.", verify="make"),
        reply(call("list_files"), call("list_files")),
        failed("overloaded", 1.0),
        do("run_command", command="2 > a.py"),
        pop("Inner is done.", store=[stored("found", "it is 2")]),
        do("heap_write", name="spec", content="2"),
        do("heap_free", name="plan"),
        pop("Outer is done."),
        reply("Nothing to call.", stop="end"),
        pop("All is done."),
        start=started(price=PRICE, checked=True, model="claude-made-up"),
        world=World({"a.py": "1"}),
    )


def compacted() -> Played:
    """One conversation whose beginning the model replaces with summaries, with priced tokens."""
    looks = [do("read_file", path="long.txt") for _ in range(6)]
    return play(
        *looks,
        pop("All is done."),
        start=started("summary:1000,keep=1", price=PRICE),
        world=World({"long.txt": "a long line of text\n" * 100}, summary="It is a long file."),
    )


def folded() -> Played:
    """Two nested branches that continue from the conversation before them."""
    begin, end = do("branch", name="b", prompt="Look into it."), do("return", result="Seen.")
    return play(begin, do("list_files"), begin, do("list_files"), end, end, end, start=started("fold"))


PLAYED = {
    "calculator": calculator,
    "mishaps": lambda: mishaps("stackheap"),
    "mishaps-full": lambda: mishaps("full"),
    "mishaps-system": lambda: mishaps("stackheap:index=system"),
    "family": family,
    "compacted": compacted,
    "folded": folded,
}


def told(name: str) -> list[Record]:
    return records(PLAYED[name]().events)


def cut_short() -> list[Record]:
    """The family's run, killed while its innermost frame was working."""
    return told("family")[:14]


def hostile() -> list[Record]:
    """A run in which every text under a model's control tries to harm a reader."""
    nasty = "</script>\x00\x1b[31m\u202e=1+1\"'\\\n,;\U0001f600"
    played = play(
        reply(nasty, call("=cmd|' /C calc'!A0", **{nasty: nasty})),
        reply(call("list_files", path=nasty)),
        reply(replace(call("list_files"), arguments=None, malformed=nasty)),
        reply(replace(call("list_files"), arguments=[nasty])),
        reply(replace(call("read_file"), id="same"), replace(call("read_file"), id="same")),
        alloc("a", nasty),
        pop(nasty),
        start=started(task=nasty),
    )
    return records(played.events)


def exported(name: str, told: list[Record], run: str = "a-run") -> str:
    return "".join(EXPORTS[name](told, run))


def keep(run: Path, told: Iterable[Record], previous: str = "") -> Path:
    """Save the records as a run's folder."""
    run.mkdir(parents=True)
    lines = []
    for record in told:
        line, previous = write_line(record, previous)
        lines.append(line)
    (run / "trace.jsonl").write_bytes(b"".join(lines))
    return run


def stopped(told: list[Record]) -> list[Record]:
    """Return the records with an interruption as the last one."""
    return [*told, Record(told[-1].seq + 1, told[-1].at + 1, RunEnded("interrupted", "so far"))]
