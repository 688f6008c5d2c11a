"""Runs a program: chooses where it starts, schedules its agents, and runs each playbook in its own frame.

Rule 1: a reply that breaks the contract is answered with its fault; the fourth in a row halts the program.
Rule 2: a frame that returned leaves only its summary in the log, and its parameters get their old values back.
Rule 3: agents run in file order; each runs until it waits for a message that has not arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import PhaseEnded
from stackmem.languages.debugger import MomentListener
from stackmem.languages.frame.values import as_text, digest_of, variable_set
from stackmem.languages.operations import Completion, Routine

from .errors import halt
from .prompt import frame_request
from .python_functions import run_function
from .reply import read_reply
from .reply_items import ReturnItem, Yielded
from .session_log import brief, value_text
from .state import CallFailure, Exit, PlaybookExecution, PlaybookFrame, PlaybookState, Waiting, excess, resolve
from .tools import ask_person, run_queue, wait_for
from .tree import Playbook, PlaybookAgent, PlaybookProgram
from .turns import Turn, expected_lines, take

Entries = dict[str, list[tuple[Playbook, dict[str, Any]]]]


def check_inputs(program: PlaybookProgram, entry: str, inputs: Mapping[str, Any]) -> None:
    """Reject inputs that the program cannot start with.

    This also works if only the compiled form will show where the program starts.

    Raise UsageError as ``entries_of`` does.
    """
    if entry or not program.plain_triggers:
        entries_of(program, entry, inputs)
        return
    names = list(dict.fromkeys(param.name for _, book in program.all() for param in book.params))
    for name in inputs:
        _must_be_known(name.lstrip("$"), names)


def _must_be_known(name: str, names: list[str]) -> None:
    if name not in names:
        raise UsageError(f"the program has no input {name[:80]!r}; known: {', '.join(names) or 'none'}")


def entries_of(program: PlaybookProgram, entry: str, inputs: Mapping[str, Any]) -> Entries:
    """Map each agent to its entry playbooks and their arguments.

    ``entry`` is the playbook of ``--entry``, with or without its agent's name. If it is empty, the BGN playbooks are
    used, or else the first one. Raise UsageError if no playbook has this name, or the inputs do not match its
    parameters.
    """
    starts = choose_entries(program, entry)
    names = list(dict.fromkeys(param.name for _, book in starts for param in book.params))
    values = {name.lstrip("$"): value for name, value in inputs.items()}
    for name in values:
        _must_be_known(name, names)
    missing = [param.name for _, book in starts for param in book.params if param.required and param.name not in values]
    if missing:
        raise UsageError(f"the program needs the input {missing[0]}; give it as --input {missing[0]}=TEXT")
    entries: Entries = {}
    for agent, book in starts:
        defaults = {param.name: param.default for param in book.params if not param.required}
        own = {param.name: values[param.name] for param in book.params if param.name in values}
        entries.setdefault(agent.name, []).append((book, {**defaults, **own}))
    return entries


def choose_entries(program: PlaybookProgram, entry: str) -> list[tuple[PlaybookAgent, Playbook]]:
    """Return the playbooks that the program starts with, each with its agent."""
    every = list(program.all())
    if entry:
        owner, _, name = entry.rpartition(".")
        matches = [pair for pair in every if pair[1].name == name and (not owner or pair[0].name == owner)]
        if not matches:
            text = ", ".join(book.name for _, book in every)
            raise UsageError(f"cannot start with {entry[:80]!r}, an unknown playbook; known: {text}")
        return matches[:1]
    begin = [pair for pair in every if pair[1].begins()]
    if begin:
        return begin
    return [next((pair for pair in every if not pair[1].python), every[0])]


class _Thread(Struct, eq=False):
    """One agent's entry playbooks, run one after another."""

    here: PlaybookExecution
    doing: Any
    waits: Waiting | None = None  # what it waits for; None while it can continue
    send: Any = None  # value to send next
    value: Any = None
    done: bool = False


def run_agents(
    world: PlaybookState, entries: dict[str, list[tuple[Playbook, dict[str, Any]]]], watch: MomentListener | None = None
) -> Routine:
    """Run the entry playbooks of each agent and return the value of the first agent's last one.

    Raise Halted if all agents wait, and all messages are delivered.
    """
    threads = []
    for name, todo in entries.items():
        here = PlaybookExecution(world, world.agents[name], [], run_playbook, watch)
        threads.append(_Thread(here, _run_entries(here, todo)))
    try:
        while not all(thread.done for thread in threads):
            ready = [thread for thread in threads if _ready(thread)]
            if not ready:
                waits = [thread.waits for thread in threads if thread.waits]
                text = "; ".join(f"{each.agent} waits for {each.source}" for each in waits)
                raise halt("Deadlock", f"{text}; nobody is left to send a message", world.path)
            yield from _run_turn(ready[0])
    except Exit:
        return None
    return threads[0].value


def _run_entries(here: PlaybookExecution, todo: list[tuple[Playbook, dict[str, Any]]]) -> Routine:
    value = None
    for book, arguments in todo:
        value = yield from run_playbook(here, book, arguments)
        if isinstance(value, CallFailure):
            raise halt("Function Failed", f"{book.name} failed: {value.reason}", f"{here.world.path}:{book.line}")
    return value


def _ready(thread: _Thread) -> bool:
    if thread.done:
        return False
    return thread.waits is None or bool(thread.here.agent.inbox.get(thread.waits.source))


def _run_turn(thread: _Thread) -> Routine:
    """Run an agent until it waits or has finished."""
    if thread.waits is not None:
        thread.send = "\n".join(thread.here.agent.inbox.pop(thread.waits.source))
        thread.waits = None
    try:
        operation = thread.doing.send(thread.send)
        while not isinstance(operation, Waiting):
            try:
                answer = yield operation
            except Halted as refused:
                # the playbook line that made the request adds its location to the halt
                operation = thread.doing.throw(refused)
            else:
                operation = thread.doing.send(answer)
        thread.waits = operation
    except StopIteration as stop:
        thread.value, thread.done = stop.value, True


MAX_MISSES = 3
_ABSENT = object()


def run_playbook(here: PlaybookExecution, book: Playbook, arguments: dict[str, Any]) -> Routine:
    """Run a playbook or function and return its value, or a ``CallFailure`` if a function failed.

    Raise Exit if the program ends, and Halted if the playbook cannot continue.
    """
    if book.python:
        return (yield from run_function(here, book, arguments))
    agent = here.agent
    frame = PlaybookFrame(book, arguments, mark=len(agent.log), loaded={}, returned={})
    called = f"{book.name}({', '.join(f'{name}={value_text(value, 60)}' for name, value in arguments.items())})"
    before = {name: agent.variables.get(name, _ABSENT) for name in arguments}
    yield from here.enter(book.name, book.says or called)
    agent.frames.append(frame)
    here.notify_debugger("entered", called)
    outer_changed, agent.changed = agent.changed, set()
    for name, value in arguments.items():
        agent.bind(name, value)
        yield variable_set(name, value)
    try:
        value = yield from _run_frame(here, frame, called)
    except Exit:
        agent.frames.pop()
        yield from here.leave("the program ended here")
        raise
    here.notify_debugger("left", f"{called} returned {value_text(value)}")
    changed = sorted(name for name in agent.changed if name in agent.variables)
    yield PhaseEnded(book.name, {f"${name}": digest_of(agent.variables[name]) for name in changed})
    agent.changed |= outer_changed
    agent.frames.pop()
    for name, outer in before.items():
        agent.variables.pop(name, None)
        if outer is not _ABSENT:
            agent.variables[name] = outer
    summary = f"{called} returned {value_text(value)}. {frame.recap}".rstrip()
    agent.log.fold(frame.mark, summary)
    yield from here.leave(summary)
    return value


def _run_frame(here: PlaybookExecution, frame: PlaybookFrame, called: str) -> Routine:
    """Run the frame and return the playbook's value."""
    instruction = f"Execute {called}"
    while True:
        answer: Completion = yield frame_request(here.world, here.agent, frame, instruction)
        if answer.failed == "window":
            message = f"the prompt is longer than the model takes ({answer.detail})"
            raise _halt(here, frame, "Prompt Too Long", message, instruction)
        if answer.failed:
            turn = Turn(fault=f"the reply was {answer.failed}; write a shorter one, by the contract", text=answer.text)
        else:
            here.world.frame = frame
            variables = here.agent.variables if here.world.loose else None
            turn = yield from take(here, frame, read_reply(answer.text, variables))
        for note in turn.notes:
            here.agent.log.add("MEDIUM", f"note: {note}")
        lines = yield from run_queue(here, frame, turn.queue)
        if turn.fault:
            instruction = "\n".join([_count_miss(here, frame, turn, answer.text), *lines])
            continue
        frame.misses = 0
        if isinstance(turn.end, ReturnItem):
            value = resolve(turn.end.value, here.agent.variables)
            if reason := excess(value):
                instruction = _continuation(frame, [*lines, f"what? it was not returned: {reason}"])
                continue
            return value
        match turn.end.to if turn.end else "call":
            case "user":
                user_reply = yield from ask_person(here, f"({frame.location}) your answer")
                lines.append(f"User said: {user_reply}")
            case "other" if isinstance(turn.end, Yielded):
                lines.append((yield from wait_for(here, turn.end.other)))
            case "return":
                return None
            case "exit":
                raise Exit
            case _:
                pass
        instruction = _continuation(frame, [*lines, *(f"note: {note}" for note in turn.notes)])


def _continuation(frame: PlaybookFrame, lines: list[str]) -> str:
    done = f"{frame.location} was executed - continue execution." if frame.at else f"Continue {frame.book.name}."
    return "\n".join([done, *lines])


def _count_miss(here: PlaybookExecution, frame: PlaybookFrame, turn: Turn, reply: str) -> str:
    """Return the model's next instruction after a reply that broke the contract.

    Raise Halted if the number of misses exceeds its limit.
    """
    frame.misses += 1
    shown_text = brief(turn.text or reply, 200)
    if frame.misses > MAX_MISSES:
        message = f"{frame.misses} replies in a row broke the contract; the last: {turn.fault}"
        raise _halt(here, frame, "Contract Broken", message, as_text(turn.text or reply))
    question = f"what? {turn.fault}" + (f" (at {shown_text!r})" if shown_text else "")
    here.agent.log.add("HIGH", question)
    rest = "Nothing from there on was performed, and calls queued before it were dropped; queue them again."
    if turn.keeps:
        rest = "Nothing from there on was performed; everything before it was, calls included."
    expected = f"{expected_lines(frame)}. {MAX_MISSES - frame.misses + 1} more such replies halt the program."
    return _continuation(frame, [question, rest, expected[0].upper() + expected[1:]])


def _halt(here: PlaybookExecution, frame: PlaybookFrame, kind: str, message: str, text: str) -> Halted:
    return halt(kind, message, here.world.source_location(frame), text)
