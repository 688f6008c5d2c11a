"""``stackheap``: frames with clean conversations, registers, and a heap whose index is in every prompt.

``index``: where the index is shown.

- ``on_change`` (default): the whole index in the next user message whenever it differs from the last one shown;
- ``delta``: one line per change instead, as in every conversation with a user;
- ``tail``: at the end of every prompt, never kept;
- ``system``: in the system prompt, which invalidates the provider's cache at every change;
- ``listed``: not in prompts; the tool ``heap_list`` shows it.

``descriptions=off``: the index shows no descriptions. ``registers``: characters of R0 and R1 each (200), or ``off``: a
push has only a context, and the child sees that and the run's task. ``store=off``: pushes and pops store nothing.
``tools=memory``: frames, heap and ``heap_list``, for an agent with its own tools (``stackmem mcp``).

``tail`` and ``system`` change text before earlier replies, so they do not send the model's thinking back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.errors import UsageError
from stackmem.core.heap import Heap, index, index_rows, line
from stackmem.core.messages import Text, View
from stackmem.core.requests import Effect
from stackmem.core.state import State
from stackmem.core.tools import HeapList, HeapRead, PopFrame, PushFrame, Tool

from .shared.constants import run_constants
from .shared.conversation import Conversation, extend, first_conversation, rolling_breakpoints
from .shared.offers import HEAP, POP_UNSTORED, PUSH_BARE, PUSH_CONTEXT, PUSH_UNSTORED, WORKSPACE, without_workspace
from .shared.opening import first_parts, opening, small_opening
from .shared.parameters import Choice
from .shared.parameters import parameters as parse

PLACES = ("on_change", "delta", "tail", "system", "listed")
PARAMETERS = (
    Choice("index", PLACES),
    Choice("descriptions", ("on", "off")),
    Choice("registers", ("200", "100", "2000", "off")),
    Choice("store", ("on", "off")),
    Choice("tools", ("all", "memory")),
)


class StackHeap(Struct, frozen=True):
    """place: Where the index is shown, see above.
    described: Whether the index shows descriptions.
    registers: Characters of R0 and R1 each; 0 for none.
    """

    name: str = "stackheap"
    place: str = "on_change"
    described: bool = True
    registers: int = 200
    tools: tuple[Tool, ...] = (*WORKSPACE, PushFrame, PopFrame, *HEAP)
    prompt: str = "stackheap"

    @property
    def prefix_stable(self) -> bool:
        return self.place not in ("tail", "system")

    def budgets(self, base: Budgets) -> Budgets:
        size = self.registers or Budgets().intent_chars
        return replace(base, intent_chars=size, return_chars=size)

    def render(self, state: State) -> View:
        start, frame = state.begun, state.running
        budgets = start.budgets
        constants, thoughts = run_constants(start), self.prefix_stable and start.thinking == "kept"

        def begin() -> Conversation:
            first = self.place in ("on_change", "delta")
            index_text = index(frame.opened, budgets, described=self.described) if first else ""
            own = opening(frame, budgets, index_text, task=start.task, registers=bool(self.registers))
            if start.small is not UNSET and not frame.depth:
                own = small_opening(frame, index_text)
            news = heap_news(self.place, budgets, self.described)
            return first_conversation(first_parts(constants, frame, own), frame.opened, news, thoughts=thoughts)

        # A fork may change the messages before the turns, so the key distinguishes the two conversations.
        conversation = frame.turns.fold_from(extend, begin, (self.name, constants, thoughts, budgets)).close()
        messages = conversation.messages
        kept_parts = len(messages[-1].parts)
        now = index(state.heap, budgets, described=self.described) if self.place in ("tail", "system") else ""
        if self.place == "tail":
            last = messages[-1]
            ending = replace(last, parts=(*last.parts, Text(now)))
            messages = messages.without_last().append(ending)
        breakpoints = rolling_breakpoints(messages, kept_parts, shared_parts=conversation.shared_parts)
        system = f"{start.system}\n\n{now}" if self.place == "system" else start.system
        return View(system, start.tools, messages, breakpoints)

    def upkeep(self, state: State) -> Effect | None:
        return None


@lru_cache(maxsize=32)
def heap_news(location: str, budgets: Budgets, described: bool = True) -> Callable[[Heap, Heap], str]:
    """Return a function for the user message's text about the heap, given the shown heap and the current one."""
    tells = {"on_change": _whole_index, "delta": _changed_lines}.get(location, _nothing)
    return partial(tells, budgets, described)


def _whole_index(budgets: Budgets, described: bool, before: Heap, now: Heap) -> str:
    if now.brief:
        return _changed_lines(budgets, described, before, now)
    return "" if before is now or index_rows(before) == index_rows(now) else index(now, budgets, described=described)


def _changed_lines(budgets: Budgets, described: bool, before: Heap, now: Heap) -> str:
    if before is now or index_rows(before) == index_rows(now):
        return ""
    old = dict(zip(before.chunks, index_rows(before), strict=True))
    new = dict(zip(now.chunks, index_rows(now), strict=True))
    lines = [f"HEAP CHANGES: {now.chars:,} of {budgets.heap_chars:,} characters used"]
    lines += [f"- {name} | freed" for name in old if name not in new]
    lines += [line(now, now.chunks[name], described=described) for name in new if old.get(name) != new[name]]
    return "\n".join(lines)


def _nothing(budgets: Budgets, described: bool, before: Heap, now: Heap) -> str:
    return ""


def stackheap(parameters: str) -> StackHeap:
    return configured("stackheap", parameters)


def configured(strategy: str, parameters: str, reading: Tool = HeapRead, traits: str = "") -> StackHeap:
    """Return the strategy with these parameters.

    ``reading`` is the tool that reads the heap. ``traits`` are traits of the prompt, each with ``+`` before it.
    """
    options = parse(strategy, parameters, PARAMETERS)
    words = options.words
    listed, described = words["index"] == "listed", words["descriptions"] == "on"
    if listed and not described:
        raise UsageError(f"{strategy}:index=listed always shows descriptions (in heap_list); remove descriptions=off")
    registers, stores = words["registers"] != "off", words["store"] == "on"
    pushes: dict[tuple[bool, bool], Tool] = {
        (True, True): PushFrame,
        (True, False): PUSH_UNSTORED,
        (False, True): PUSH_CONTEXT,
        (False, False): PUSH_BARE,
    }
    heap: tuple[Tool, ...] = tuple(reading if tool is HeapRead else tool for tool in HEAP)
    alone = words["tools"] == "memory"
    if alone and not described:
        raise UsageError(f"{strategy}:tools=memory always shows descriptions (in heap_list); remove descriptions=off")
    framing: tuple[Tool, Tool] = pushes[registers, stores], PopFrame if stores else POP_UNSTORED
    marks = {"listed": listed, "undescribed": not described, "unregistered": not registers, "unstored": not stores}
    prompt = "stackheap" + traits + "".join(f"+{mark}" for mark, holds in marks.items() if holds)
    return StackHeap(
        name=options.name,
        place=words["index"],
        described=described,
        registers=int(words["registers"]) if registers else 0,
        tools=(
            *(() if alone else WORKSPACE),
            *(without_workspace(*framing) if alone else framing),
            *heap,
            *([HeapList] if listed or alone else []),
        ),
        prompt="memory" if alone else prompt,
    )
