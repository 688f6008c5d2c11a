"""Builds prompts: the part that never changes first, then the frame's part, then a tail that is new each time."""

from __future__ import annotations

from stackmem.core.messages import Breakpoint, Message, Text
from stackmem.languages.operations import Complete

from .calls import BUILT_IN_CALLS, RUN_PROGRAM
from .state import AgentState, PlaybookFrame, PlaybookState, state_json
from .tree import Playbook, PlaybookAgent, PlaybookProgram

_CLOSING = "---\n**Follow the contract exactly; deviations break execution.**"


def frame_request(world: PlaybookState, agent: AgentState, frame: PlaybookFrame, instruction: str) -> Complete:
    """Return the completion request that continues a frame."""
    fixed = "\n\n".join([world.contract.strip(), *([agent.agent.says] if agent.agent.says else [])])
    loaded = [Text(f"Artifact[{name}]\n\n{content}") for name, content in frame.loaded.items()]
    tail = "\n\n".join(
        [
            f"*Session log*\n{agent.log.text() or '(empty)'}",
            f"*Current state*\n```json\n{state_json(world, agent)}\n```",
            f"{instruction}\n\n{_CLOSING}",
        ]
    )
    parts = (Text(frame_part(world.program, agent.agent, frame.book)), *loaded, Text(tail))
    ends = [Breakpoint(-1, 0, "1h"), Breakpoint(0, 0, "1h")]
    if loaded:
        ends.append(Breakpoint(0, len(loaded), "5m"))
    return Complete((Message("user", parts),), system=fixed, breakpoints=tuple(ends), name=frame.book.name)


def frame_part(program: PlaybookProgram, agent: PlaybookAgent, book: Playbook) -> str:
    """Return the part that stays the same while a frame lives: the playbook, its callable names, the triggers."""
    called = [each for each in agent.playbooks if each.name != book.name]
    own = [f"- `{each.signature}`{_returns(each)} {_first_line(each.says)}".rstrip() for each in (book, *called)]
    others = [
        f"- `{other.name}.{each.signature}`{_returns(each)} {_first_line(each.says)}".rstrip()
        for other in program.agents
        if other.name != agent.name
        for each in other.playbooks
        if each.public
    ]
    agents = [other.name for other in program.agents if other.name != agent.name]
    calls_programs = any("run_program(" in step.text for each in agent.playbooks for step in each.steps)
    built_in = [f"- `{call}`" for call in (*BUILT_IN_CALLS.values(), *((RUN_PROGRAM,) if calls_programs else ()))]
    callables = "\n".join([*own, *others, *built_in])
    agents_note = f"\n\nYou are the agent {agent.name}. Other agents: {', '.join(agents)}" if agents else ""
    return (
        f"*Current playbook*\n```md\n{_numbered_lines(book)}\n```\n\n*What can be called*\n{callables}{agents_note}\n\n"
        f"*Available playbook triggers*\n```md\n{registry(agent)}\n```"
    )


def registry(agent: PlaybookAgent) -> str:
    """Return the triggers that the model must watch for."""
    lines = [
        f'- {trigger.text}, `Trigger["{book.name}:{trigger.label}:{trigger.code}"]` by enqueuing `{book.signature}`'
        for book in agent.playbooks
        for trigger in book.triggers
        if trigger.code != "BGN"
    ]
    return "\n".join(lines) or "(none)"


def _numbered_lines(book: Playbook) -> str:
    """Return the playbook with a number on every line, including lines the file leaves unnumbered."""
    lines = [f"## {book.signature}{_returns(book)}", *([book.says] if book.says else [])]
    if book.triggers:
        lines += ["### Triggers", *(f"- {each.label}:{each.code} {each.text}" for each in book.triggers)]
    lines.append("### Steps")
    for step in book.steps:
        lines.append(f"{'  ' * (len(step.number) - 1)}- {step.label}:{step.code} {step.text}".rstrip())
    if book.notes:
        lines += ["### Notes", *(f"- {note.name} {note.text}" for note in book.notes)]
    return "\n".join(lines)


def _returns(book: Playbook) -> str:
    return f" -> {book.returns}" if book.returns else ""


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0][:200] if text.strip() else ""
