"""Agents take turns, in the order of the file: one runs until it waits for a message that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from stackmem.languages.effects import Halted

from .faults import halted
from .here import Doing, Here, Waiting
from .nodes import Playbook
from .state import Exit, World

Play = Callable[[Here, Playbook, dict[str, Any]], Doing]


class _Thread(Struct, eq=False):
    """One agent's own playbooks, one after another.

    Attributes:
        waits: What it waits for; None while it can go on.
        send: What it is sent next.

    """

    here: Here
    doing: Any
    waits: Waiting | None = None
    send: Any = None
    value: Any = None
    done: bool = False


def run_agents(
    world: World, entries: dict[str, list[tuple[Playbook, dict[str, Any]]]], play: Play, *, debug: bool
) -> Doing:
    """Run the entry playbooks of each agent; gives the value of the first agent's last one.

    Raises:
        Halted: All wait, and there is nothing to deliver.

    """
    threads = []
    for name, todo in entries.items():
        here = Here(world, world.agents[name], [], debug)
        threads.append(_Thread(here, _one_after_another(here, todo, play)))
    try:
        while not all(thread.done for thread in threads):
            ready = [thread for thread in threads if _ready(thread)]
            if not ready:
                waits = [thread.waits for thread in threads if thread.waits]
                told = "; ".join(f"{each.agent} waits for {each.source}" for each in waits)
                raise halted("Deadlock", f"{told}; nobody is left to send a message", world.path)
            yield from _turn(ready[0])
    except Exit:
        return None
    return threads[0].value


def _one_after_another(here: Here, todo: list[tuple[Playbook, dict[str, Any]]], play: Play) -> Doing:
    value = None
    for book, arguments in todo:
        value = yield from play(here, book, arguments)
    return value


def _ready(thread: _Thread) -> bool:
    if thread.done:
        return False
    return thread.waits is None or bool(thread.here.agent.inbox.get(thread.waits.source))


def _turn(thread: _Thread) -> Doing:
    """Let an agent run until it waits, or is through."""
    if thread.waits is not None:
        thread.send = "\n".join(thread.here.agent.inbox.pop(thread.waits.source))
        thread.waits = None
    try:
        asked = thread.doing.send(thread.send)
        while not isinstance(asked, Waiting):
            try:
                answer = yield asked
            except Halted as refused:
                asked = thread.doing.throw(refused)  # the line that asked for it says where it stands
            else:
                asked = thread.doing.send(answer)
        thread.waits = asked
    except StopIteration as stop:
        thread.value, thread.done = stop.value, True
