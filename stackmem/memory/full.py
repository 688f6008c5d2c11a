"""``full``: the whole history in one conversation; no frames, no heap. The baseline every strategy is held against.

Source: the linear history of mini-swe-agent and most coding agents.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.calls import Call, EndRun, ListFiles, ReadFile, RunCommand, WriteFile
from stackmem.core.effects import Effect
from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import Text, View
from stackmem.core.state import State

from .constants import run_constants
from .conversation import Conversation, extend, rolling_breakpoints
from .parameters import parameters as parse


class Full(Struct, frozen=True):
    name: str = "full"
    tools: tuple[type[Call], ...] = (ReadFile, WriteFile, ListFiles, RunCommand, EndRun)
    prompt: str = "full"
    prefix_stable: bool = True

    def render(self, state: State) -> View:
        start, frame = state.begun, state.running
        constants, thoughts = run_constants(start), start.thinking == "kept"
        opening = (Text(constants), Text(f"TASK\n{frame.task}"))
        begun = Conversation(Log(), opening, Heap(), Heap(), _no_news, thoughts)
        messages = frame.turns.fold(extend, begun, (self.name, constants, thoughts)).closed().messages
        breakpoints = rolling_breakpoints(messages, len(messages[-1].parts))
        return View(start.system, start.tools, messages, breakpoints)

    def upkeep(self, state: State) -> Effect | None:
        return None


def _no_news(shown: Heap, heap: Heap) -> str:
    return ""


def full(parameters: str) -> Full:
    parse("full", parameters)
    return Full()
