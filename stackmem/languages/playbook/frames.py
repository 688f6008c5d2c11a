"""Runs one playbook in a frame of its own: asks the model, takes its reply, makes its calls, until it returns.

Rule 1: a reply that breaks the contract is answered with what is wrong; after three in a row the program halts.
Rule 2: a frame that returned leaves its summary in the log and nothing else; its parameters get their old values.
"""

from __future__ import annotations

from typing import Any

from stackmem.core.program_facts import PhaseEnded
from stackmem.languages.effects import Completion, Halted
from stackmem.languages.frame.values import as_text, digest_of, variable_set

from .contract import read_reply
from .faults import halted
from .here import Doing, Here
from .items import Returned
from .nodes import Playbook
from .performing import heard, run_queue
from .prompt import ask
from .python_calls import run_function
from .session_log import brief
from .state import Exit, Frame, excess, resolved
from .turns import Turn, lines_expected, take
from .wording import value_text

MOST_MISSES = 3
_ABSENT = object()


def play(here: Here, book: Playbook, arguments: dict[str, Any]) -> Doing:
    """Run a playbook or function; gives its value, or a ``Failure`` of a function.

    Raises:
        Exit: The program ends.
        Halted: It cannot go on.

    """
    if book.python:
        return (yield from run_function(here, book, arguments, play))
    agent = here.agent
    frame = Frame(book, arguments, mark=len(agent.log), loaded={}, returned={})
    called = f"{book.name}({', '.join(f'{name}={value_text(value, 60)}' for name, value in arguments.items())})"
    before = {name: agent.variables.get(name, _ABSENT) for name in arguments}
    yield from here.enter(book.name, book.says or called)
    agent.frames.append(frame)
    here.watched("entered", called)
    outer_changed, agent.changed = agent.changed, set()
    for name, value in arguments.items():
        agent.bind(name, value)
        yield variable_set(name, value)
    try:
        value = yield from _turns(here, frame, called)
    except Exit:
        agent.frames.pop()
        yield from here.leave("the program ended here")
        raise
    here.watched("left", f"{called} returned {value_text(value)}")
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


def _turns(here: Here, frame: Frame, called: str) -> Doing:
    """The value that the playbook returns."""
    instruction = f"Execute {called}"
    while True:
        answer: Completion = yield ask(here.world, here.agent, frame, instruction)
        if answer.failed == "window":
            told = f"the prompt is longer than the model takes ({answer.detail})"
            raise _halt(here, frame, "Prompt Too Long", told, instruction)
        if answer.failed:
            turn = Turn(fault=f"the reply was {answer.failed}; write a shorter one, by the contract", text=answer.text)
        else:
            here.world.frame = frame
            turn = yield from take(here, frame, read_reply(answer.text))
        for note in turn.notes:
            here.agent.log.add("MEDIUM", f"note: {note}")
        if turn.fault:
            instruction = _missed(here, frame, turn, answer.text)
            continue
        frame.misses = 0
        lines = yield from run_queue(here, frame, turn.queue, play)
        if isinstance(turn.end, Returned):
            value = resolved(turn.end.value, here.agent.variables)
            if why := excess(value):
                instruction = _going_on(frame, [*lines, f"what? it was not returned: {why}"])
                continue
            return value
        match turn.end.to if turn.end else "call":
            case "user":
                said = yield from heard(here, f"({frame.place}) your answer")
                lines.append(f"User said: {said}")
            case "return":
                return None
            case "exit":
                raise Exit
            case _:
                pass
        instruction = _going_on(frame, [*lines, *(f"note: {note}" for note in turn.notes)])


def _going_on(frame: Frame, lines: list[str]) -> str:
    done = f"{frame.place} was executed - continue execution." if frame.at else f"Continue {frame.book.name}."
    return "\n".join([done, *lines])


def _missed(here: Here, frame: Frame, turn: Turn, reply: str) -> str:
    """What the model is told of a reply that broke the contract.

    Raises:
        Halted: It was one too many.

    """
    frame.misses += 1
    shown_text = brief(turn.text or reply, 200)
    if frame.misses > MOST_MISSES:
        told = f"{frame.misses} replies in a row broke the contract; the last: {turn.fault}"
        raise _halt(here, frame, "Contract Broken", told, as_text(turn.text or reply))
    what = f"what? {turn.fault}" + (f" (at {shown_text!r})" if shown_text else "")
    here.agent.log.add("HIGH", what)
    rest = "Nothing from there on was performed, and calls queued before it were dropped; queue them again."
    left = f"{lines_expected(frame)}. {MOST_MISSES - frame.misses + 1} more such replies halt the program."
    return _going_on(frame, [what, rest, left[0].upper() + left[1:]])


def _halt(here: Here, frame: Frame, kind: str, told: str, text: str) -> Halted:
    return halted(kind, told, here.world.where(frame), text)
