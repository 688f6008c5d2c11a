"""Calls of programs by the agent: the tool ``run_program``, and the programs that it offers.

Rule 1: Only a program that the run offered at its start can be called, with the text that it had then.
Rule 2: The inputs fit the program's schema, or the call is refused before the program starts.
Rule 3: Programs and the agents in their frames call one another at most ``MAX_CALLS`` deep.
"""

from __future__ import annotations

import posixpath
from typing import Any

from msgspec import UNSET, json

from stackmem.core import limits
from stackmem.core.conversation import planning, session
from stackmem.core.guidance.skills import Skill
from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.core.program_facts import OfferedProgram, ProgramCalled, ProgramStarted
from stackmem.core.requests import AskPermission
from stackmem.core.schemas.json_schema import first_fault, read_json
from stackmem.core.state import Pending, State
from stackmem.core.tool_schemas import unreadable
from stackmem.core.tools import Refusal

from . import repetition

TOOL = "run_program"
PREFIX = "program/"
MAX_CALLS = 4
SPEC = ToolSpec(
    TOOL,
    "Run a program, which follows a fixed procedure step by step and returns its value.",
    json.encode(
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The program's name."},
                "inputs": {"type": "object", "description": "Its inputs by name, as its schema says."},
            },
            "required": ["path"],
            "additionalProperties": False,
        }
    ).decode(),
)


def settle_call(state: State, call: ToolCall, pending: Pending) -> ProgramCalled | AskPermission | Refusal:
    """Return the start of the called program, the question whether it may start, or the refusal."""
    arguments = call.arguments
    if call.malformed is not None or not isinstance(arguments, dict):
        return Refusal("bad_arguments", f"{unreadable(call)} one JSON object with path and inputs")
    obstacle = limits.closing_refusal(state) or repetition.refusal(state) or planning.refusal(state, call)
    if obstacle is not None:
        return obstacle
    start = _start(state, arguments)
    if isinstance(start, Refusal):
        return start
    depth = sum(1 for frame in state.stack if frame.program == "steps" and frame.call_id)
    if depth >= MAX_CALLS:
        return Refusal("refused", f"run_program refused: programs call one another at most {MAX_CALLS} deep")
    return session.permission(state, pending, call) or ProgramCalled(f"frame-{state.pushes + 1}", start)


def _start(state: State, arguments: dict[str, Any]) -> ProgramStarted | Refusal:
    """Return the program that a call names, with its inputs."""
    programs = () if state.begun.programs is UNSET else state.begun.programs
    path, inputs = arguments.get("path"), arguments.get("inputs")
    unknown = next((name for name in arguments if name not in ("path", "inputs")), None)
    if unknown is not None:
        return Refusal("bad_arguments", f"run_program: {unknown[:80]!r} is not a parameter; it takes path and inputs")
    if not isinstance(path, str):
        return Refusal("bad_arguments", "run_program: path must be a string, the name of a program")
    key = path.strip().removeprefix(PREFIX)
    program = next((each for each in programs if key in (each.name, each.path, posixpath.basename(each.path))), None)
    if program is None:
        names = ", ".join(each.name for each in programs)
        return Refusal(
            "bad_arguments", f"run_program: the program {path[:80]!r} is unknown", f"the programs are {names}"
        )
    inputs = {} if inputs is None else inputs
    fault = first_fault(inputs, read_json(program.schema)[0]) if isinstance(inputs, dict) else "inputs: not an object"
    if fault:
        return Refusal("bad_arguments", f"run_program: {fault}", f"the schema of the inputs is {program.schema}")
    options: dict[str, Any] = {"checked": True} if program.checked else {}
    options |= {"replies": program.replies} if program.replies else {}
    folder = posixpath.dirname(program.path)
    return ProgramStarted(program.language, program.path, program.digest, inputs, folder, options)


def as_skill(program: OfferedProgram, source: str, digest: str) -> Skill:
    """Return the entry of a program in the heap index, with what the agent reads before it calls the program."""
    example = json.encode({"path": program.name, "inputs": {}}).decode()
    content = (
        f"PROGRAM {program.name} ({program.language}, {source}).\n{program.description}\n\n"
        f"Call the tool run_program with {example} and fill in the inputs. "
        f"JSON Schema of the inputs:\n{program.schema}"
    )
    return Skill(program.name, program.description, content, source, digest, program=True, listed="program")


def advice(programs: tuple[OfferedProgram, ...], *, heap: bool) -> str:
    """Return the text about programs for the agent's instructions."""
    if not programs:
        return ""
    many = "1 program" if len(programs) == 1 else f"{len(programs)} programs"
    if heap:
        return (
            f"PROGRAMS: the heap has {many} ({PREFIX}NAME): fixed procedures that {TOOL} runs step by step. Before you "
            f"do work that one describes, read its inputs with heap_read, then call it."
        )
    rows = "\n".join(f"- {each.name}: {each.description} Inputs: {each.schema}" for each in programs)
    return f"PROGRAMS: {TOOL} runs one of these fixed procedures, with its inputs.\n{rows}"
