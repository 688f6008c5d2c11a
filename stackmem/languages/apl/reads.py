"""What a step reads and what it sets, by its text alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .nodes import Foreach, RunStep, Step, Switch, ToolStep, Try, While
from .templates import Mention, literal_stretches, mentions


def inner(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps that stand in a step."""
    match step:
        case Foreach() | While():
            return (step.body,)
        case Switch():
            return (*(body for _, body in step.cases), step.default)
        case Try():
            return (step.body, step.catch)
        case ToolStep() | RunStep():
            return ()


def conditions(step: Step) -> Iterator[str]:
    """Its own expressions without braces."""
    if step.head.condition:
        yield step.head.condition
    match step:
        case While():
            yield step.test
        case Switch():
            yield step.value
        case _:
            pass


def texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    match value:
        case str():
            yield value
        case list() | tuple():
            for item in value:
                yield from texts(item)
        case dict():
            for item in value.values():
                yield from texts(item)
        case _:
            pass


def templates(step: Step, *, variables: bool = True) -> Iterator[str]:
    """Its own texts that may hold templates."""
    match step:
        case ToolStep():
            for part in (step.params, step.inputs, step.using, step.env, step.timeout_seconds):
                yield from texts(part)
            yield from texts(step.variables) if variables else ()
        case Foreach():
            yield from texts(step.items)
        case _:
            pass


def own_mentions(step: Step, *, command: bool = False, variables: bool = True) -> Iterator[Mention]:
    """What its own texts need.

    Args:
        command: Leave out the literal stretches of a shell command.
        variables: Also what the values of ``vars`` need; each may need one before it.

    """
    for condition in conditions(step):
        yield from mentions(condition, expression=True)
    for text in templates(step, variables=variables):
        yield from command_mentions(text) if command else mentions(text)


def command_mentions(command: str) -> Iterator[Mention]:
    """What a shell command needs outside its literal stretches."""
    done = 0
    for start, end in literal_stretches(command):
        yield from mentions(command[done:start])
        done = end
    yield from mentions(command[done:])


def exit_codes_read(step: Step) -> frozenset[str]:
    """Names whose ``.exit_code`` is read anywhere in a step."""
    found = {mention.name for mention in own_mentions(step) if mention.path == ("exit_code",)}
    for body in inner(step):
        for each in body:
            found |= exit_codes_read(each)
    return frozenset(found)


def registers(step: Step) -> Iterator[str]:
    """The names that a step sets for certain: not those in its branches."""
    if isinstance(step, ToolStep):
        if step.register:
            yield step.register
        if step.tool == "set_vars":
            yield from step.variables


def later_reads_exit_code(steps: tuple[Step, ...], index: int) -> bool:
    """Whether the output that step ``index`` registers has its exit code read later in the same list of steps.

    Then a failure is no accident but something that the program looks at. What comes after the name was registered
    anew does not count.
    """
    step = steps[index]
    register = step.register if isinstance(step, ToolStep) else ""
    if not register:
        return False
    for later in steps[index + 1 :]:
        if register in exit_codes_read(later):
            return True
        if register in registers(later):
            return False
    return False
