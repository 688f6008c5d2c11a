"""``stackheap``: frames with clean conversations, registers, and a heap whose index is in every prompt.

Where the index stands is the one parameter:

- ``on_change`` (default): the whole index in the next user message whenever it differs from what was last shown;
- ``delta``: one line per change instead;
- ``tail``: at the end of every prompt, never kept;
- ``system``: in the system prompt, which costs the provider's cache at every change.

The last two change what stands before earlier replies, so they do not send the model's thinking back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.calls import (
    Call,
    HeapAlloc,
    HeapFree,
    HeapRead,
    HeapWrite,
    ListFiles,
    PopFrame,
    PushFrame,
    ReadFile,
    RunCommand,
    WriteFile,
)  # fmt: skip
from stackmem.core.effects import Effect
from stackmem.core.heap import Heap, index, line, shown
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, View
from stackmem.core.state import Frame, State

from .constants import run_constants
from .conversation import Conversation, extend, rolling_breakpoints
from .parameters import Choice
from .parameters import parameters as parse

_TOOLS: tuple[type[Call], ...] = (
    ReadFile, WriteFile, ListFiles, RunCommand, PushFrame, PopFrame, HeapAlloc, HeapRead, HeapWrite, HeapFree,
)  # fmt: skip

_PLACES = ("on_change", "delta", "tail", "system")


class StackHeap(Struct, frozen=True):
    """Attributes:
    place: Where the index stands, see above.
    """

    place: str = "on_change"
    tools: tuple[type[Call], ...] = _TOOLS
    prompt: str = "stackheap"

    @property
    def name(self) -> str:
        return "stackheap" if self.place == "on_change" else f"stackheap:index={self.place}"

    @property
    def prefix_stable(self) -> bool:
        return self.place in ("on_change", "delta")

    def render(self, state: State) -> View:
        start, frame = state.begun, state.running
        budgets = start.budgets
        in_messages = self.place in ("on_change", "delta")
        constants, thoughts = run_constants(start), self.prefix_stable and start.thinking == "kept"
        opening = (Text(constants), Text(_opening(frame, budgets, in_messages)))
        begun = Conversation(Log(), opening, frame.opened, frame.opened, _news(self.place, budgets), thoughts)
        # A fork may change what stands above the turns: the key tells the two conversations apart.
        messages = frame.turns.fold(extend, begun, (self.name, constants, thoughts)).closed().messages
        kept = len(messages[-1].parts)
        if self.place == "tail":
            last = messages[-1]
            ending = replace(last, parts=(*last.parts, Text(index(state.heap, budgets))))
            messages = _with_last(messages, ending)
        breakpoints = rolling_breakpoints(messages, kept)
        system = f"{start.system}\n\n{index(state.heap, budgets)}" if self.place == "system" else start.system
        return View(system, start.tools, messages, breakpoints)

    def upkeep(self, state: State) -> Effect | None:
        return None


def _with_last(messages: Log[Message], ending: Message) -> Log[Message]:
    return Log([*messages[:-1], ending])


def _opening(frame: Frame, budgets: Budgets, indexed: bool) -> str:
    """The frame's own block of its first message: registers, what it was given, the index as of the push."""
    registers = frame.registers
    lines = [
        f"FRAME {frame.name!r}, depth {frame.depth} of {budgets.depth}",
        f"R0 INTENT: {registers.intent}",
        f"R1 RETURN: {registers.return_spec}",
    ]
    if registers.constraint:
        lines.append(f"R3 BUDGET: {registers.constraint}")
    if frame.verify:
        lines.append(f"VERIFY (run when you pop): {frame.verify}")
    if frame.context:
        lines += ["", "CONTEXT", frame.context]
    if frame.task:
        lines += ["", "TASK", frame.task]
    lines += [f"heap {name!r} does not exist yet" for name in frame.missing]
    if indexed:
        lines += ["", index(frame.opened, budgets)]
    return "\n".join(lines)


@lru_cache(maxsize=32)
def _news(place: str, budgets: Budgets) -> Callable[[Heap, Heap], str]:
    tells = {"on_change": _whole_index, "delta": _changed_lines}.get(place, _nothing)
    return partial(tells, budgets)


def _whole_index(budgets: Budgets, before: Heap, now: Heap) -> str:
    return "" if before is now or shown(before) == shown(now) else index(now, budgets)


def _changed_lines(budgets: Budgets, before: Heap, now: Heap) -> str:
    if before is now or shown(before) == shown(now):
        return ""
    old = dict(zip(before.chunks, shown(before), strict=True))
    new = dict(zip(now.chunks, shown(now), strict=True))
    lines = [f"HEAP CHANGES: {now.chars:,} of {budgets.heap_chars:,} characters used"]
    lines += [f"- {name} | freed" for name in old if name not in new]
    lines += [line(now, now.chunks[name]) for name in new if old.get(name) != new[name]]
    return "\n".join(lines)


def _nothing(budgets: Budgets, before: Heap, now: Heap) -> str:
    return ""


def stackheap(parameters: str) -> StackHeap:
    return StackHeap(parse("stackheap", parameters, (Choice("index", _PLACES),)).words["index"])
