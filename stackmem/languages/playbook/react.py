"""The steps of a playbook that has none: think, act, and finish."""

from __future__ import annotations

from msgspec.structs import replace

from .nodes import Playbook, Program
from .step_lines import step_line

_STEPS = (
    (1,), "TNK about what is asked for and how to get there",
    (2,), "CND If something that only the user knows is missing",
    (2, 1), "QUE Say(the question)",
    (2, 2), "YLD user",
    (3,), 'EXE set $task to what is to be done and $task_status to "started"',
    (4,), 'CND While $task_status is not "done"',
    (4, 1), "TNK about the next action and set $task_action to call, communicate or finish",
    (4, 2), "CND If $task_action is call",
    (4, 2, 1), "QUE the playbooks or functions that bring the task forward",
    (4, 2, 2), "YLD call",
    (4, 3), "CND If $task_action is communicate, set $communication_type to ask or tell",
    (4, 3, 1), "QUE Say(the message)",
    (4, 3, 2), "YLD user if $communication_type is ask, else call",
    (4, 4), 'CND If $task_action is finish, set $task_status to "done"',
    (4, 99), "JMP 04",
    (5,), "EXE save a result of over 500 characters as an artifact",
    (6,), "RET the result, or the name of the artifact",
)  # fmt: skip


def with_default_steps(program: Program) -> Program:
    """The program with the default steps in every prose playbook that has none."""
    agents = tuple(
        replace(agent, playbooks=tuple(_filled(book) for book in agent.playbooks)) for agent in program.agents
    )
    return Program(agents)


def _filled(book: Playbook) -> Playbook:
    if book.python or book.steps or book.plain:
        return book
    numbers, texts = _STEPS[::2], _STEPS[1::2]
    steps = tuple(step_line(str(text), book.line, tuple(number)) for number, text in zip(numbers, texts, strict=True))
    return replace(book, steps=steps)
