"""What a fork changes, and whether anything can go on from there with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.facts import ChunkSet
from stackmem.core.heap import Heap, faults, no_chunk
from stackmem.core.state import State
from stackmem.core.tools import HeapRead, StoreEntry, tool_name
from stackmem.errors import UsageError
from stackmem.measure.whatif import has_frames
from stackmem.memory import open_strategy
from stackmem.settings.option_values import Place, read_value
from stackmem.settings.options import OPTIONS
from stackmem.trace.moments import StepMoment

from .limits import LIMITS

_HEAP = "heap."


class Changes(Struct, frozen=True):
    """Everything that may differ from the run that is forked; None and nothing keep what it had.

    Attributes:
        chunks: Chunk name to content.
        dropped: Chunks taken from the heap.
        limits: As flags spell them: ``50``, ``+50``, ``none``.

    """

    strategy: str | None = None
    model: str | None = None
    base_url: str | None = None
    window_tokens: int | None = None
    prompt: Path | None = None
    isolation: str | None = None
    chunks: Mapping[str, str] = {}
    dropped: tuple[str, ...] = ()
    limits: Mapping[str, str | None] = {}

    def settings(self) -> dict[str, Any]:
        """The settings that it changes, by name."""
        given = {
            "strategy": self.strategy,
            "model": self.model,
            "base_url": self.base_url,
            "window_tokens": self.window_tokens,
            "prompt": self.prompt,
            "isolation": self.isolation,
        }
        if self.model is not None:  # an address belongs to the model that it was given with
            return {name: value for name, value in given.items() if value is not None or name in _OF_A_MODEL}
        return {name: value for name, value in given.items() if value is not None}


_OF_A_MODEL = ("base_url", "window_tokens")


def read_changes(flags: Mapping[str, str | None], sets: list[str], drops: list[str], cwd: Path) -> Changes:
    """The changes that flags spell.

    Args:
        flags: Setting name to text, limits among them.
        sets: ``heap.NAME=TEXT`` or ``heap.NAME=@FILE``.
        drops: ``heap.NAME``.

    Raises:
        UsageError: One of them is not accepted, or a file cannot be read.

    """
    known = {}
    for name in ("strategy", "model", "base_url", "window_tokens", "prompt", "isolation"):
        text = flags.get(name)
        if text is not None:
            place = Place(OPTIONS[name].flag, folder=cwd, home=os.environ.get("HOME", ""))
            known[name] = read_value(OPTIONS[name], text, place)
    chunks: dict[str, str] = {}
    for given in sets:
        name, equals, value = given.partition("=")
        if not equals or not name.startswith(_HEAP):
            raise UsageError(f"--set {given[:60]!a} sets nothing; write heap.NAME=TEXT or heap.NAME=@FILE")
        if name.removeprefix(_HEAP) in chunks:
            raise UsageError(f"--set {name[:80]} is given twice; set each chunk once")
        chunks[name.removeprefix(_HEAP)] = _content(value, cwd) if value.startswith("@") else value
    wrong = next((name for name in drops if not name.startswith(_HEAP)), None)
    if wrong is not None:
        raise UsageError(f"--drop {wrong[:60]!a} names no chunk; write heap.NAME")
    dropped = tuple(dict.fromkeys(name.removeprefix(_HEAP) for name in drops))
    return Changes(**known, chunks=chunks, dropped=dropped, limits={n: flags.get(n) for n in LIMITS})


def _content(value: str, cwd: Path) -> str:
    path = cwd / Path(os.path.expanduser(value[1:]))  # noqa: PTH111 - a name like ~nobody is no error here
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"--set: {path} cannot be read as text ({error}); name a UTF-8 file") from error


def must_go_on(moment: StepMoment, changes: Changes) -> None:
    """Refuses what no run could go on from.

    Raises:
        UsageError: The root had popped; or frames are open that the other strategy could never pop.

    """
    state = moment.settled
    if not state.stack:
        raise UsageError(f"at step {moment.step} the run's root had popped; fork at an earlier step")
    if changes.strategy is None:
        return
    strategy = open_strategy(changes.strategy)
    open_frames = [frame.name for frame in state.stack[1:]]
    if open_frames and not has_frames(strategy):
        raise UsageError(
            f"at step {moment.step} the frames {', '.join(map(repr, open_frames))} are open, and the strategy "
            f"{strategy.name} has none; fork at a step where only the root is, or with a strategy that has frames"
        )


def chunks_to_set(state: State, changes: Changes, scrub: Callable[[str], str]) -> tuple[ChunkSet, ...]:
    """The chunks to set, without secrets; a chunk that is replaced keeps its description.

    Raises:
        UsageError: A name to drop is not on the heap, or what is set is over a budget.

    """
    heap: Heap = state.heap
    for name in changes.dropped:
        if name not in heap.chunks:
            raise UsageError(f"--drop: {no_chunk(heap, name)}")
        heap = heap.without(name)
    strategy = open_strategy(changes.strategy or state.begun.strategy)
    if changes.chunks and tool_name(HeapRead) not in map(tool_name, strategy.tools):
        raise UsageError(f"--set: the strategy {strategy.name} has no heap, so nobody would read it; leave --set out")
    old = {name: chunk.description for name, chunk in heap.chunks.items()}
    found = tuple(ChunkSet(name, scrub(content), old.get(name, "")) for name, content in sorted(changes.chunks.items()))
    entries = tuple(StoreEntry(chunk.name, chunk.content, chunk.description) for chunk in found)
    wrong = faults(heap, entries, state.begun.budgets)
    if wrong:
        raise UsageError(f"--set: {'; '.join(wrong)}")
    return found
